// SPDX-License-Identifier: Apache-2.0
// Every filter: plain use, edges, and what it refuses.
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

TEST(JinjaFilters, Trim) {
  static constexpr Recorded cases[] = {
      {R"([{{ '  a b \n' | trim }}][{{ blank | trim }}][{{ '' | trim }}][{{ 'xxaxx' | trim('x') }}][{{ 'abcba' | trim('ab') }}][{{ 5 | trim }}][{{ none | trim }}][{{ missing | trim }}][{{ '\u00a0\u2003a\u3000' | trim }}][{{ '\x1ca\x85' | trim }}][{{ ' a ' | trim(none) }}])",
       R"([a b][x][][a][c][5][None][][a][a][a])"},
      {R"({{ 'a' | trim(1, 2) }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Case) {
  static constexpr Recorded cases[] = {
      {R"({{ 'hELLO wORLD' | capitalize }} {{ 'élan VITAL' | capitalize }} {{ '' | capitalize }}| {{ '1ABC' | capitalize }} {{ 'ǆx' | capitalize }} {{ 'ßx' | capitalize }})",
       R"(Hello world Élan vital | 1abc ǅx Ssx)"},
      {R"({{ "it's a-b (c d) [e {f <g" | title }} {{ 'HELLO wORLD_x' | title }} {{ 'a\nb\tc' | title }} {{ 'ñandú élan' | title }} {{ '' | title }}|{{ 'a.b,c/d' | title }} {{ "o'neil's" | title }})",
       R"(It's A-B (C D) [E {F <G Hello World_x A
B	C Ñandú Élan |A.b,c/d O'neil's)"},
      {R"({{ 'Straße' | upper }} {{ 'ÀÉÎ' | lower }} {{ 'ǆ' | upper }} {{ word | upper }} {{ 1.5 | upper }} {{ none | upper }} {{ true | lower }} {{ missing | upper }}| {{ [1, 'a'] | upper }})",
       R"(STRASSE àéî Ǆ HÉLLO WÖRLD 1.5 NONE true | [1, 'A'])"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Replace) {
  static constexpr Recorded cases[] = {
      {R"({{ 'aXbX' | replace('X', '-') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'aaa' | replace('aa', 'b') }} {{ 'ab' | replace('', '.') }} {{ 'ab' | replace('', '.', 2) }} {{ 'a' | replace('a', '') }}| {{ 'a' | replace('z', 'y') }} {{ 15 | replace(1, 2) }} {{ 'a' | replace('a', 'b', 0) }} {{ 'ß' | replace('ß', 'ss') }} {{ 'a' | replace('a', none) }} {{ '' | replace('', 'x') }} {{ 'abab' | replace('ab', 'ba', count=1) }})",
       R"(a-b- bba ba .a.b. .a.b | a 25 a ss None x baab)"},
      {R"({{ 'a' | replace('b') }})", raises},
      {R"({{ 'a' | replace }})", raises},
      {R"({{ 'a' | replace('a', 'b', 'c') }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Indent) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a
b

c' | indent }}|{{ 'a
b' | indent(2) }}|{{ 'a

b' | indent(1, true) }}|{{ 'a

b' | indent(1, blank=true) }}|{{ 'a
b' | indent('> ') }}|{{ 'a
' | indent(2) }}|{{ '' | indent(2, first=true) }}|{{ 'a
b' | indent(0) }})",
       R"(a
    b

    c|a
  b| a

 b|a
 
 b|a
> b|a
|  |a
b)"},
      {R"({{ 'a\r\nb\x0bc' | indent(1) }}|{{ 'a
 b' | indent(width=3, first=true) }}|{{ '

' | indent(2, true, true) }}|)",
       R"(a
 b
 c|   a
    b|  
  
  |)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, StringAndSafe) {
  static constexpr Recorded cases[] = {
      {R"({{ 5 | string + 'a' }} {{ [1, 'a'] | string }} {{ none | string }} {{ missing | string }}| {{ 1.0 | string | length }} {{ 'x' | string is string }} {{ '<b>' | safe }} {{ true | string | lower }})",
       R"(5a [1, 'a'] None | 3 True <b> true)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Escape) {
  static constexpr Recorded cases[] = {
      {R"({{ quote | escape }} {{ quote | e }} {{ '' | e }}| {{ 5 | e }} {{ '&amp;' | e }} {{ none | e }} {{ messages[0].content | e }})",
       R"(it&#39;s &#34;so&#34; \ &lt;b&gt;&amp; it&#39;s &#34;so&#34; \ &lt;b&gt;&amp; | 5 &amp;amp; None  Hi &lt;b&gt;
)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, FormatAndWordcount) {
  static constexpr Recorded cases[] = {
      {R"({{ '%s-%s' | format('a', 1) }} {{ '%d%%' | format(5) }} {{ '%.2f' | format(1.005) }} {{ '%r' | format('a') }} {{ 'x' | format }} {{ 'a b  c\nd' | wordcount }} {{ '' | wordcount }} {{ "it's a-b" | wordcount }})",
       R"(a-1 5% 1.00 'a' x 4 0 4)"},
      {R"({{ '%s %s' | format('a') }})", raises},
      {R"({{ '%s' | format('a', 'b') }})", raises},
      {R"({{ '%d' | format('a') }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Length) {
  static constexpr Recorded cases[] = {
      {R"({{ 'abc' | length }} {{ cjk | length }} {{ '' | length }} {{ [1, [2, 3]] | length }} {{ {'a': 1} | length }} {{ () | count }} {{ missing | length }} {{ 'e\u0301' | length }} {{ range(7) | length }} {{ messages | count }} {{ nested.keys() | length }})",
       R"(3 3 0 2 1 0 0 2 7 2 4)"},
      {R"({{ 5 | length }})", raises},
      {R"({{ none | length }})", raises},
      {R"({{ [1] | select | length }})", raises},
      {R"({{ true | length }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, ListFirstLast) {
  static constexpr Recorded cases[] = {
      {R"({{ 'abc' | list }} {{ {'a': 1} | list }} {{ (1, 2) | list }} {{ [1] | list }} {{ cjk | list }} {{ missing | list }} {{ '' | list }} {{ nested.t.values() | list }} {{ range(2) | list }})",
       R"(['a', 'b', 'c'] ['a'] [1, 2] [1] ['你', '好', '🦙'] [] [] [{'v': 'deep'}] [0, 1])"},
      {R"({{ [1, 2] | first }} {{ 'abc' | first }} {{ {'k': 1} | first }} [{{ [] | first }}] [{{ '' | first }}] {{ [] | first is defined }} {{ (3,) | first }} {{ [none] | first }} {{ range(3) | first }} {{ [1, 2] | select | first }})",
       R"(1 a k [] [] False 3 None 0 1)"},
      {R"({{ [1, 2] | last }} {{ 'abc' | last }} [{{ [] | last }}] {{ cjk | last }} {{ (1, 2) | last }} {{ range(3) | last }} {{ [] | last is defined }} {{ {'a': 1, 'b': 2} | last }})",
       R"(2 c [] 🦙 2 2 False b)"},
      {R"({{ 5 | list }})", raises},
      {R"({{ none | list }})", raises},
      {R"({{ 5 | first }})", raises},
      {R"({{ ([] | first).x }})", raises},
      {R"({{ none | last }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Join) {
  static constexpr Recorded cases[] = {
      {R"({{ ['a', 'b'] | join }} {{ [1, none, true, 2.0] | join(', ') }} {{ [] | join(',') }}| {{ ['a'] | join(',') }} {{ 'abc' | join('-') }} {{ {'a': 1, 'b': 2} | join }} {{ people | join('/', attribute='name') }} {{ people | join(attribute='age') }} {{ [[1], [2]] | join(';') }} {{ ['a', 'b'] | join(1) }} {{ ['a', missing, 'b'] | join('-') }} {{ ['a', 'b'] | join(none) }} {{ missing | join }}| {{ (1, 2) | join(d='+') }} {{ names | select | join }})",
       R"(ab 1, None, True, 2.0 | a a-b-c ab Ann/bob/Cy 31731 [1];[2] a1b a--b aNoneb | 1+2 AnnbobCy)"},
      {R"({{ 5 | join }})", raises},
      {R"({{ none | join }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Reverse) {
  static constexpr Recorded cases[] = {
      {R"({{ [1, 2, 3] | reverse | list }} {{ 'héllo' | reverse }} {{ (1, 2) | reverse | list }} {{ '' | reverse }}| {{ [] | reverse | list }} {{ range(3) | reverse | list }} {{ {'a': 1, 'b': 2} | reverse | list }} {{ [1, 2] | reverse | first }})",
       R"([3, 2, 1] olléh [2, 1] | [] [2, 1, 0] ['b', 'a'] 2)"},
      {R"({{ 5 | reverse }})", raises},
      {R"({{ none | reverse }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Default) {
  static constexpr Recorded cases[] = {
      {R"({{ missing | default('d') }} {{ none | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ 0 | default(5, true) }} {{ none | d('x', boolean=true) }} {{ missing | default }}| {{ nested.nope | default([]) | length }} {{ missing | default(none) }} {{ false | default('x', false) }} {{ missing | default(default_value=3) }} {{ people[9] | default('none') }} {{ 'a' | default(missing) }})",
       R"(d None | d 5 x | 0 None False 3 none a)"},
      {R"({{ missing.x | default('d') }})", raises},
      {R"({{ nested.nope.x | default('d') }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, IntAndFloat) {
  static constexpr Recorded cases[] = {
      {R"({{ 'ff' | int(base=16) }} {{ '0xff' | int(base=16) }} {{ '0b11' | int(0, 2) }} {{ '777' | int(base=8) }} {{ '0o17' | int(base=8) }} {{ 'zz' | int(base=36) }} {{ '9' | int(7, 8) }} {{ '-0x1f' | int(base=16) }})",
       R"(255 255 3 511 15 1295 9 -31)"},
      {R"({{ '42' | int }} {{ ' 42\n' | int }} {{ '-7' | int }} {{ '+7' | int }} {{ '4.9' | int }} {{ '-4.9' | int }} {{ 'x' | int }} {{ '' | int }} {{ none | int }} {{ 3.99 | int }} {{ -3.99 | int }} {{ true | int }} {{ [] | int }} {{ 'x' | int(5) }} {{ 'x' | int(default=none) }} {{ '1e3' | int }} {{ '1_000' | int }} {{ '1 2' | int }} {{ '--1' | int }} {{ '+-1' | int }} {{ '1__0' | int }} {{ '_1' | int }})",
       R"(42 42 -7 7 4 -4 0 0 0 3 -3 1 0 5 None 1000 1000 0 0 0 0 0)"},
      {R"({{ missing | int }})", raises},
      {R"({{ missing | float }})", raises},
      {R"({{ missing | int(5) }})", raises},
      {R"({{ '1.5' | float }} {{ ' 1e3 ' | float }} {{ 'x' | float }} {{ none | float }} {{ 2 | float }} {{ true | float }} {{ 'x' | float(2.5) }} {{ '.5' | float }} {{ '5.' | float }} {{ '-1.5e-3' | float }} {{ 'inf' | float }} {{ '-inf' | float }} {{ 'nan' | float }} {{ 'Infinity' | float }} {{ '1_0.5' | float }} {{ '1e400' | float }} {{ '-1e400' | float }} {{ '1e-400' | float }} {{ '0x10' | float }} {{ '+-1' | float }})",
       R"(1.5 1000.0 0.0 0.0 2.0 1.0 2.5 0.5 5.0 -0.0015 inf -inf nan inf 10.5 inf -inf 0.0 0.0 0.0)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, AbsAndRound) {
  static constexpr Recorded cases[] = {
      {R"({{ -5 | abs }} {{ (-5) | abs }} {{ (-1.5) | abs }} {{ 0 | abs }} {{ true | abs }} {{ (-0.0) | abs }})",
       R"(5 5 1.5 0 1 0.0)"},
      {R"({{ 2.5 | round }} {{ 3.5 | round }} {{ -2.5 | round }} {{ 2.675 | round(2) }} {{ 1.005 | round(2) }} {{ 5 | round }} {{ 1234.5 | round(-2) }} {{ 1250 | round(-2) }} {{ 0.5 | round }} {{ 1.25 | round(1) }} {{ 1e16 | round }} {{ 123.456 | round(5) }} {{ true | round }})",
       R"(2.0 4.0 -2.0 2.67 1.0 5 1200.0 1200 0.0 1.2 1e+16 123.456 1)"},
      {R"({{ 2.1 | round(method='ceil') }} {{ 2.9 | round(method='floor') }} {{ 2.145 | round(2, 'ceil') }} {{ -2.1 | round(0, 'floor') }} {{ (-2.1) | round(0, 'floor') }} {{ 42 | round(method='ceil') }} {{ 1234 | round(-2, 'floor') }})",
       R"(3.0 2.0 2.15 -3.0 -3.0 42.0 1200.0)"},
      {R"({{ 1.5 | round(method='up') }})", raises},
      {R"({{ 'a' | round }})", raises},
      {R"({{ 'a' | abs }})", raises},
      {R"({{ none | round }})", raises},
      {R"({{ missing | abs }})", raises},
      {R"({{ none | abs }})", raises},
      {R"({{ 1350 | round(-2) }} {{ -1250 | round(-2) }} {{ (-1250) | round(-2) }} {{ 5 | round(-1) }} {{ 15 | round(-1) }} {{ 6 | round(-1) }} {{ 7 | round(-20) }})",
       R"(1400 -1200 -1200 0 20 10 0)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Sort) {
  static constexpr Recorded cases[] = {
      {R"({{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'a', 'B'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [1, 2] | sort(true) }} {{ [1, 2, 3] | sort(reverse=true) }} {{ 'bca' | sort }} {{ {'b': 1, 'a': 2} | sort }} {{ [] | sort }} {{ (2, 1) | sort }} {{ [true, 0, 0.5] | sort }} {{ missing | sort }})",
       R"([1, 2, 3] ['A', 'b', 'c'] ['A', 'a', 'b', 'B'] ['A', 'b'] [2, 1] [3, 2, 1] ['a', 'b', 'c'] ['a', 'b'] [] [1, 2] [0, 0.5, True] [])"},
      {R"({{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='name', reverse=true) | map(attribute='name') | join }} {{ people | sort(attribute='age', reverse=true) | map(attribute='name') | list }} {{ [[2, 'a'], [1, 'b']] | sort(attribute=1) }} {{ [[2, 'a'], [1, 'b']] | sort(attribute='0') }} {{ people | sort(attribute='age,name') | map(attribute='name') | join(',') }})",
       R"(['bob', 'Ann', 'Cy'] CybobAnn ['Ann', 'Cy', 'bob'] [[2, 'a'], [1, 'b']] [[1, 'b'], [2, 'a']] bob,Ann,Cy)"},
      {R"({{ [1, 'a'] | sort }})", raises},
      {R"({{ [none, 1] | sort }})", raises},
      {R"({{ people | sort }})", raises},
      {R"({{ 5 | sort }})", raises},
      {R"({{ people | sort(attribute='town.zip') }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Dictsort) {
  static constexpr Recorded cases[] = {
      {R"({{ {'b': 1, 'A': 2, 'c': 0} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ {'b': 1, 'a': 2} | dictsort(false, 'key', true) }} {{ {} | dictsort }} {{ {2: 'x', 1: 'y'} | dictsort }} {{ {'a': 'Z', 'b': 'y'} | dictsort(by='value') }})",
       R"([('A', 2), ('b', 1), ('c', 0)] [('A', 2), ('b', 1)] [('b', 1), ('a', 2)] [('b', 1), ('a', 2)] [] [(1, 'y'), (2, 'x')] [('b', 'y'), ('a', 'Z')])"},
      {R"({{ {'a': 1} | dictsort(by='nope') }})", raises},
      {R"({{ [1] | dictsort }})", raises},
      {R"({{ {'a': 1, 1: 2} | dictsort }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, MinMaxSumUnique) {
  static constexpr Recorded cases[] = {
      {R"({{ [3, 1, 2] | min }} {{ [3, 1, 2] | max }} {{ ['b', 'A'] | min }} {{ ['b', 'A'] | max }} {{ ['b', 'A'] | max(case_sensitive=true) }} [{{ [] | min }}] {{ 'bca' | max }} {{ people | max(attribute='age') }} {{ (people | min(attribute='age')).name }} {{ [1, 1.0] | min }} {{ ['a', 'A'] | max }} {{ [] | max is defined }})",
       R"(1 3 A b b [] c {'name': 'Ann', 'age': 31, 'town': {'zip': 10}} bob 1 a False)"},
      {R"({{ [1, 2] | sum }} {{ [] | sum }} {{ [0.1, 0.2, 0.3] | sum }} {{ people | sum('age') }} {{ people | sum(attribute='age', start=100) }} {{ [[1], [2]] | sum(start=[]) }} {{ [true, 1] | sum }} {{ (1, 2) | sum }} {{ range(4) | sum }})",
       R"(3 0 0.6000000000000001 69 169 [1, 2] 2 3 6)"},
      {R"({{ [1, 1.0, true, 2] | unique | list }} {{ ['a', 'A', 'b', 'a'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }} {{ [] | unique | list }} {{ 'abca' | unique | join }} {{ [none, none] | unique | list }} {{ [(1, 2), (1, 2)] | unique | list }})",
       R"([1, 2] ['a', 'b'] ['a', 'A'] ['Ann', 'bob'] [] abc [None] [(1, 2)])"},
      {R"({{ ['a'] | sum }})", raises},
      {R"({{ [1, 'a'] | max }})", raises},
      {R"({{ 5 | max }})", raises},
      {R"({{ [[1], [1]] | unique | list }})", raises},
      {R"({{ people | sum }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, BatchSliceItems) {
  static constexpr Recorded cases[] = {
      {R"({{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }} {{ [] | batch(2) | list }} {{ 'abc' | batch(2) | list }} {{ [1] | batch(5, 0) | list }} {{ [1, 2] | batch(1) | list }} {{ [1, 2, 3] | batch(2, none) | list }})",
       R"([[1, 2], [3, 4], [5]] [[1, 2], [3, 'x']] [] [['a', 'b'], ['c']] [[1, 0, 0, 0, 0]] [[1], [2]] [[1, 2], [3]])"},
      {R"({{ {'a': 1, 'b': 2} | items | list }} {{ {} | items | list }} {{ missing | items | list }} {% for k, v in nested.t | items %}{{ k }}:{{ v }}{% endfor %})",
       R"([('a', 1), ('b', 2)] [] [] u:{'v': 'deep'})"},
      {R"({{ [1] | items | list }})", raises},
      {R"({{ none | items | list }})", raises},
      {R"({{ 'a' | items | list }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Map) {
  static constexpr Recorded cases[] = {
      {R"({{ [1, 2] | map('string') | list }} {{ names | map('upper') | list }} {{ names | map('replace', 'n', 'N') | list }} {{ people | map(attribute='name') | list }} {{ people | map(attribute='town.zip') | list }} {{ people | map(attribute='town', default='none') | map('string') | list }} {{ people | map(attribute='nope', default=0) | list }} {{ [[1, 2], [3, 4]] | map(attribute=1) | list }} {{ [[1, 2]] | map(attribute='0') | list }} {{ [] | map('upper') | list }} {{ none | map('upper') | list }} {{ missing | map('upper') | list }} {{ 'ab' | map('upper') | join }} {{ [3, -4] | map('abs') | sum }} {{ ['a', 'b'] | map('default', 'x') | list }} {{ [[2, 1]] | map('sort') | list }} {{ [' a '] | map('trim') | map('length') | list }})",
       raises},
      {R"({{ people | map(attribute='nope') | list }} {{ people | map(attribute='town.zip', default='-') | join(',') }} {{ ['1', 'x'] | map('int', default=7) | list }} {{ [1, 2] | map('round', 1, 'ceil') | list }} {{ {'a': 1, 'b': 2} | map('upper') | list }})",
       R"([Undefined, Undefined, Undefined] 10,-,5 [1, 7] [1.0, 2.0] ['A', 'B'])"},
      {R"({{ [1] | map('nope') | list }})", raises},
      {R"({{ [1] | map | list }})", raises},
      {R"({{ [1] | map('upper', 1) | list }})", raises},
      {R"({{ 5 | map('upper') | list }})", raises},
      {R"({{ [none] | map(attribute='x.y') | list }})", raises},
      {R"({{ [1] | map(attribute='x', other=1) | list }})", raises},
      {R"({{ people | map(attribute='nope.deeper') | list }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, SelectAndReject) {
  static constexpr Recorded cases[] = {
      {R"({{ [0, 1, '', 'a', none, []] | select | list }} {{ [0, 1, '', none] | reject | list }} {{ range(6) | select('odd') | list }} {{ range(6) | select('divisibleby', 3) | list }} {{ [1, none] | reject('none') | list }} {{ ['a', 'b'] | select('in', 'abc') | list }} {{ [1, 'a', 2.0] | select('number') | list }} {{ [1, 5] | select('>', 3) | list }} {{ [1, 5] | select('le', 1) | list }} {{ ['a', 'b'] | reject('equalto', 'a') | list }} {{ [1, 5] | select('greaterthan', 3) | list }} {{ 'aB' | select('upper') | list }} {{ none | select | list }} {{ [missing, 1] | select('defined') | list }})",
       R"([1, 'a'] [0, '', None] [1, 3, 5] [0, 3] [1] ['a', 'b'] [1, 2.0] [5] [1] ['b'] [5] ['B'] [] [1])"},
      {R"({{ people | selectattr('town') | map(attribute='name') | list }} {{ people | selectattr('age', '>', 10) | list | length }} {{ people | selectattr('town', 'defined') | map(attribute='name') | join }} {{ people | rejectattr('town') | map(attribute='name') | list }} {{ people | selectattr('name', 'in', ['Cy']) | list | length }} {{ people | selectattr('town.zip', 'eq', 5) | map(attribute='name') | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'ne', 'user') | map(attribute='role') | list }} {{ (messages | selectattr('role', 'eq', 'system') | list | first) is defined }} {{ 'yes' if messages | selectattr('role', 'eq', 'none') }} {{ people | selectattr('town', 'undefined') | list | length }} {{ messages | selectattr('tool_calls') | list }})",
       raises},
      {R"({{ [1] | select('nope') | list }})", raises},
      {R"({{ people | selectattr | list }})", raises},
      {R"({{ people | selectattr('age', 'nope') | list }})", raises},
      {R"({{ 5 | select | list }})", raises},
      {R"({{ ['a'] | select('odd') | list }})", raises},
      {R"({{ [1] | select('in', 5) | list }})", raises},
      {R"({{ people | selectattr('town.zip', '>', 5) | list }})", raises},
      {R"({{ [none] | selectattr('a.b') | list }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, GroupbyAndAttr) {
  static constexpr Recorded cases[] = {
      {R"({% for age, group in people | groupby('age') %}{{ age }}:{{ group | map(attribute='name') | join('+') }} {% endfor %}{{ [] | groupby('x') | list }})",
       R"(7:bob 31:Ann+Cy [])"},
      {R"({% for g in people | groupby('age') %}{{ g[0] }}{{ g[1] | length }} {% endfor %})", R"(71 312 )"},
      {R"({{ ('abc' | attr('upper'))() }} {{ {'a': 1} | attr('a') is defined }} {{ 'x' | attr('nope') is defined }} {{ ({'a': 1} | attr('get'))('a') }})",
       R"(ABC False False 1)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, Tojson) {
  static constexpr Recorded cases[] = {
      {R"({{ {'a': [1, 2.0, none, true, 'é"\\\n<>&\u2028'], 'b': {}, 'c': [], 'd': ()} | tojson }} {{ 'a' | tojson }} {{ none | tojson }} {{ 1.5 | tojson }} {{ (1, 2) | tojson }} {{ '' | tojson }} {{ '/' | tojson }} {{ '\x00\x1f\x7f\x08\x0c\t' | tojson }} {{ 1e22 | tojson }} {{ big | tojson }} {{ -0.0 | tojson }} {{ 1e400 | tojson }})",
       R"({"a": [1, 2.0, null, true, "é\"\\\n<>& "], "b": {}, "c": [], "d": []} "a" null 1.5 [1, 2] "" "/" "\u0000\u001f\b\f\t" 1e+22 9007199254740993 -0.0 Infinity)"},
      {R"({{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }} {{ {'a': 1, 'b': [1]} | tojson(separators=(',', ':')) }} {{ ['é', '🦙', '\u007f'] | tojson(ensure_ascii=true) }} {{ ['é'] | tojson(ensure_ascii=false) }} {{ {1: 1, 1.5: 2, true: 3, none: 4} | tojson }} {{ people[0] | tojson }})",
       R"({"a": {"c": 2, "d": 1}, "b": 1} {"a":1,"b":[1]} ["\u00e9", "\ud83e\udd99", "\u007f"] ["é"] {"1": 3, "1.5": 2, "null": 4} {"name": "Ann", "age": 31, "town": {"zip": 10}})"},
      {R"({{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=2) }}|{{ [1] | tojson(indent=0) }}|{{ [[]] | tojson(indent=1) }}|{{ {'a': 1} | tojson(indent='--') }}|{{ [1, 2] | tojson(indent=2, separators=(', ', ' : ')) }}|{{ {} | tojson(indent=4) }}|{{ 'a' | tojson(indent=4) }}|{{ nested | tojson(indent=4) }})",
       R"({
  "a": [
    1,
    {
      "b": []
    }
  ],
  "c": {}
}|[
1
]|[
 []
]|{
--"a": 1
}|[
  1, 
  2
]|{}|"a"|{
    "a": [
        1,
        {
            "b": null
        }
    ],
    "é": "ü",
    "items": 3,
    "t": {
        "u": {
            "v": "deep"
        }
    }
})"},
      {R"({{ messages | tojson }} {{ messages[0] | tojson(indent=none) }} {{ [nested.t, names] | tojson | length }})",
       R"([{"role": "user", "content": " Hi <b>\n"}, {"role": "assistant", "content": "Yo"}] {"role": "user", "content": " Hi <b>\n"} 44)"},
      {R"({{ missing | tojson }})", raises},
      {R"({{ [missing] | tojson }})", raises},
      {R"({{ {(1, 2): 3} | tojson }})", raises},
      {R"({{ {'a': 1}.keys() | tojson }})", raises},
      {R"({{ [1] | select | tojson }})", raises},
      {R"({{ {1: 1, 'a': 2} | tojson(sort_keys=true) }})", raises},
      {R"({{ range | tojson }})", raises},
      {R"({{ [1] | tojson(separators=1) }})", raises},
      {R"({{ namespace() | tojson }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaFilters, FiltersThatDoNotExist) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 | nope }})", raises},
      {R"({{ 1 | upper.x }})", raises},
      {R"({{ 1 | }})", raises},
      {R"({{ 1 | 'upper' }})", raises},
      {R"({% if false %}{{ 1 | nope }}{% endif %}ok)", R"(ok)"},
      {R"({{ 'x' if 'nope' is filter else 'y' }} {{ 'tojson' is filter }} {{ 'upper' is filter }})",
       R"(y True True)"},
  };
  expect_as_recorded(cases);
}

}  // namespace
}  // namespace duoka::data::testing
