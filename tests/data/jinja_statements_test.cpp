// SPDX-License-Identifier: Apache-2.0
// Tags: conditions, loops, assignments, macros and blocks.
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

TEST(JinjaStatements, If) {
  static constexpr Recorded cases[] = {
      {R"({% if yes %}a{% endif %}{% if nothing %}b{% endif %}{% if missing %}c{% endif %}{% if empty %}d{% endif %}{% if blank %}e{% endif %})",
       R"(ae)"},
      {R"({% if 0 %}a{% elif 0 %}b{% elif 1 %}c{% elif 1 / 0 %}d{% else %}e{% endif %})", R"(c)"},
      {R"({% if 0 %}a{% else %}{% if 1 %}b{% else %}c{% endif %}{% endif %})", R"(b)"},
      {R"({% if not messages %}a{% elif messages[0].role == 'system' %}b{% else %}c{% endif %})", R"(c)"},
      {R"({% if 1, 2 %}tuple{% endif %}{% if (0) %}x{% else %}y{% endif %})", R"(tupley)"},
      {R"({% if names is iterable and names is not string and names is not mapping %}list{% endif %})",
       R"(list)"},
      {R"({% if messages | length > 1 and messages[1].role == 'assistant' %}yes{% endif %})", R"(yes)"},
      {R"({% if 1 %}{% endif %}|{% if 0 %}{% else %}{% endif %})", R"(|)"},
      {R"({% if true %}a{% else %}b{% else %}c{% endif %})", raises},
      {R"({% if true %}a{% else if %}b{% endif %})", raises},
      {R"({% if true %}a{% elif %}b{% endif %})", raises},
      {R"({% if true %}a)", raises},
      {R"({% endif %})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, For) {
  static constexpr Recorded cases[] = {
      {R"({% for n in names %}{{ n }},{% endfor %}{% for c in cjk %}[{{ c }}]{% endfor %}{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}{% for x in () %}x{% endfor %})",
       R"(Ann,bob,Cy,[你][好][🦙]ab)"},
      {R"({% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in nested.t | items %}{{ k }}{{ v }}{% endfor %})",
       R"(a=1;b=[2];u{'v': 'deep'})"},
      {R"({% for x in [] %}a{% else %}none{% endfor %}{% for x in [1] %}a{% else %}none{% endfor %}{% for x in missing %}a{% else %}undefined{% endfor %}{% for x in '' %}a{% else %}empty{% endfor %})",
       R"(noneaundefinedempty)"},
      {R"({% for x in 1, 2, 3 %}{{ x }}{% endfor %}{% for x in (4, 5) if x > 4 %}{{ x }}{% endfor %})",
       R"(1235)"},
      {R"({% for m in messages %}{{ loop.index }}.{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %})",
       R"(1.user, 2.assistant)"},
      {R"({% for x in names %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %})",
       R"(032TrueFalse3 121FalseFalse3 210FalseTrue3 )"},
      {R"({% for x in [1, 2, 3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %})",
       R"(<1>2 FalseTrue;1<2>3 TrueTrue;2<3> TrueFalse;)"},
      {R"({% for x in names if x != 'bob' %}{{ loop.index }}/{{ loop.length }}{{ x }} {% else %}-{% endfor %}{% for x in names if x == 'Zoe' %}{{ x }}{% else %}nobody{% endfor %})",
       R"(1/2Ann 2/2Cy nobody)"},
      {R"({% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b', 'c') }} {% endfor %})",
       R"(Truea Falseb Truec Falsea Trueb )"},
      {R"({% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}|{% endfor %})",
       R"(113 214 1|123 224 2|)"},
      {R"({% for x in [1, 2] %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }}{{ y }} {% endfor %}{% endfor %})",
       R"(11a 12b 21a 22b )"},
      {R"({% for x in [[1, 2], [3]] %}{% for x in x %}{{ x }}{% endfor %}{{ x }};{% endfor %})",
       R"(12[1, 2];3[3];)"},
      {R"({% for x in range(3) %}{{ x }}{% endfor %}{% for x in range(2, -3, -2) %}{{ x }}{% endfor %}{% for x in names | reverse %}{{ x }}{% endfor %}{% for x in names | map('length') %}{{ x }}{% endfor %})",
       R"(01220-2CybobAnn332)"},
      {R"({% for x in [3, 1] | sort %}{{ x }}{{ loop.length }}{% endfor %}{% for x in 'abc'[::-1] %}{{ x }}{% endfor %}{% for i in '123' | list %}{{ i }}{% endfor %})",
       R"(1232cba123)"},
      {R"({% for x in [0, 1, 2] if x %}{{ x }}{% endfor %}{% for x in [1, 2] if missing %}{{ x }}{% else %}none{% endfor %})",
       R"(12none)"},
      {R"({% for k in nested %}{{ k }} {% endfor %}{% for p in people if p.town is defined %}{{ p.name }}{{ p.town.zip }}{% endfor %})",
       R"(a é items t Ann10Cy5)"},
      {R"({% for x in names %}{% endfor %}{{ x is defined }}{{ loop is defined }})", R"(FalseFalse)"},
      {R"({% for x in 5 %}{% endfor %})", raises},
      {R"({% for x in none %}{% endfor %})", raises},
      {R"({% for a, b in [1] %}{% endfor %})", raises},
      {R"({% for a, b in [(1, 2, 3)] %}{% endfor %})", raises},
      {R"({% for a, b in ['x'] %}{% endfor %})", raises},
      {R"({% for x of names %}{% endfor %})", raises},
      {R"({% for 1 in names %}{% endfor %})", raises},
      {R"({% for loop in names %}{% endfor %})", raises},
      {R"({% for x in names %}{{ loop.nope }}|{% endfor %})", R"(|||)"},
      {R"({% for x in names %})", raises},
      {R"({% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }} {% endfor %}{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %})",
       R"(12 34 xy 123)"},
      {R"({% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{% break %}{% else %}no round ended{% endfor %})",
       R"(no round ended)"},
      {R"({% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}no{% endfor %}|)", R"(|)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, BreakAndContinue) {
  static constexpr Recorded cases[] = {
      {R"({% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %})",
       R"(0134)"},
      {R"({% for x in range(3) %}{% for y in range(3) %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %})",
       R"(00 10 20 )"},
      {R"({% for x in range(3) %}{% break %}{% else %}none{% endfor %}|{% for x in range(3) %}a{% continue %}b{% endfor %})",
       R"(none|aaa)"},
      {R"({% for x in range(3) %}{% with y = x %}{% if y == 1 %}{% continue %}{% endif %}{{ y }}{% endwith %}{% endfor %})",
       R"(02)"},
      {R"({% for x in range(3) %}{{ x }}{% if loop.index == 2 %}{% break %}{% endif %},{% endfor %})",
       R"(0,1)"},
      {R"({% break %})", raises},
      {R"({% continue %})", raises},
      {R"({% for x in [1] %}{% endfor %}{% break %})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, Set) {
  static constexpr Recorded cases[] = {
      {R"({% set a = 1 %}{{ a }}{% set a = a + 1 %}{{ a }}{% set b, c = 'xy' %}{{ b }}{{ c }}{% set d = 1, 2 %}{{ d }}{% set (e, f) = (3, 4) %}{{ e }}{{ f }}{% set g, (h, i) = 1, (2, 3) %}{{ h }}{{ i }})",
       R"(12xy(1, 2)3423)"},
      {R"({% if true %}{% set a = 1 %}{% endif %}{{ a }}{% if false %}{% set b = 1 %}{% endif %}{{ b is defined }})",
       R"(1False)"},
      {R"({% set a = 1 %}{% for x in [1, 2] %}{{ a }}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }})",
       R"(12121)"},
      {R"({% set a = 'x' if missing else 'y' %}{{ a }}{% set messages = messages[1:] %}{{ messages | length }}{% set names = names + ['Dan'] %}{{ names[-1] }})",
       R"(y1Dan)"},
      {R"({% set a %}b{{ 1 }}{% endset %}{{ a }}{{ a is string }}{{ a | length }}{% set c | upper | replace('B', 'D') %}abc{% endset %}{{ c }}{% set e %}{% endset %}[{{ e }}])",
       R"(b1True2ADC[])"},
      {R"({% set a %}{% set inner = 1 %}{{ inner }}{% endset %}{{ a }}{{ inner is defined }})", R"(1False)"},
      {R"({% set d = {'a': 1} %}{% set d = dict(d, b=2) %}{{ d }}{% set l = [] %}{% set l = l + [1] %}{% set l = l + [2] %}{{ l }})",
       R"({'a': 1, 'b': 2}[1, 2])"},
      {R"({% set a = b = 1 %})", raises},
      {R"({% set 1 = a %})", raises},
      {R"({% set a.b = 1 %})", raises},
      {R"({% set a, b = 1, 2, 3 %})", raises},
      {R"({% set a, b = 1 %})", raises},
      {R"({% set a %})", raises},
      {R"({% set true = 1 %})", raises},
      {R"({% set a = %})", raises},
      {R"({% set missing.x = 1 %})", raises},
      {R"({% set nested.a = 1 %})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, Namespace) {
  static constexpr Recorded cases[] = {
      {R"({% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns['a'] }})",
       R"(2xFalse2)"},
      {R"({% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'assistant' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }})",
       R"(True)"},
      {R"({% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns2 = namespace([('k', 'v')]) %}{{ ns2.k }})",
       R"(12v)"},
      {R"({% set ns = namespace() %}{% set ns.l = [] %}{% for i in range(3) %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l }}{% set ns.t %}block{% endset %}{{ ns.t }})",
       R"([0, 1, 2]block)"},
      {R"({% set ns = namespace(i=0) %}{% macro up() %}{% set ns.i = ns.i + 1 %}{% endmacro %}{{ up() }}{{ up() }}{{ ns.i }})",
       R"(2)"},
      {R"({% set a = namespace(v=1) %}{% set b = a %}{% set b.v = 2 %}{{ a.v }}{{ a == b }}{{ namespace() == namespace() }}{{ 'yes' if namespace() }})",
       R"(2TrueFalseyes)"},
      {R"({% set ns = namespace(x=1, y=2) %}{% set ns.x, ns.y = ns.y, ns.x %}{{ ns.x }}{{ ns.y }})", R"(21)"},
      {R"({% set ns = namespace(1) %})", raises},
      {R"({% set ns = namespace({}, {}) %})", raises},
      {R"({% set ns = namespace() %}{{ ns.x.y }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, Macro) {
  static constexpr Recorded cases[] = {
      {R"({% macro m(a, b='B', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2, 3) }}{{ m(c=3, a=1) }}{{ m() }}{{ m('x') | length }}{{ m(1) ~ m(2) }})",
       R"([1BNone][123][1B3][BNone]8[1BNone][2BNone])"},
      {R"({% macro m(x) %}{{ x is defined }}{% endmacro %}{{ m() }}{{ m(none) }}{{ m(missing) }})",
       R"(FalseTrueFalse)"},
      {R"({% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(4) }})",
       R"(4321)"},
      {R"({% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }})", R"(b)"},
      {R"({% macro m(a, b=a, c=b ~ '!') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=2) }})",
       R"(111! 112)"},
      {R"({% set x = 'out' %}{% macro m() %}{{ x }}{% set x = 'in' %}{{ x }}{% endmacro %}{{ m() }}{{ x }})",
       R"(outinout)"},
      {R"({% set x = 'out' %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 'new' %}{{ m() }})", R"(new)"},
      {R"({% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %})", R"(12)"},
      {R"({% macro m(x) -%}
  {{ x }}
{%- endmacro %}{{ m(1) }}{{ m(2) }})",
       R"(12)"},
      {R"({% macro m(items) %}{% for i in items %}{% if i is mapping %}{{ m(i.values()) }}{% else %}{{ i }}{% endif %}{% endfor %}{% endmacro %}{{ m([1, {'a': 2, 'b': {'c': 3}}]) }})",
       R"(123)"},
      {R"({% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }})", raises},
      {R"({% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }})", raises},
      {R"({% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }})", raises},
      {R"({% macro m(a) %}{{ a.b.c }}{% endmacro %}{{ m({}) }})", raises},
      {R"({% macro m(a=1, b) %}{% endmacro %})", raises},
      {R"({% macro m(1) %}{% endmacro %})", raises},
      {R"({% macro (a) %}{% endmacro %})", raises},
      {R"({% macro m(a) %})", raises},
      {R"({{ m() }}{% macro m() %}x{% endmacro %})", raises},
      {R"({% macro m() %}  x  {% endmacro %}[{{ m() | trim }}][{{ m().strip() }}][{{ m()[2] }}]{{ m() is string }}{{ m is callable }})",
       R"([x][x][x]TrueTrue)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, Call) {
  static constexpr Recorded cases[] = {
      {R"({% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ 1 + 1 }}{% endcall %}{% call m() %}{% endcall %})",
       R"(<in 2><>)"},
      {R"({% macro m(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) m(names) %}{{ i }}{{ x }} {% endcall %})",
       R"(1Ann 2bob 3Cy )"},
      {R"({% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% macro n() %}{{ caller() }}{% endmacro %}{% set y = 'outer' %}{% call n() %}{{ y }}{% endcall %})",
       R"(Falseouter)"},
      {R"({% macro m() %}{{ caller() | upper }}{{ caller() }}{% endmacro %}{% call m() %}a{% call m() %}b{% endcall %}{% endcall %})",
       R"(ABBaBb)"},
      {R"({% call 5 %}x{% endcall %})", raises},
      {R"({% call missing() %}x{% endcall %})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, FilterBlocks) {
  static constexpr Recorded cases[] = {
      {R"({% filter trim %}  {% filter upper %} x {% endfilter %}  {% endfilter %}|{% filter indent(2, true) %}a
b{% endfilter %})",
       R"(X|  a
  b)"},
      {R"({% filter nope %}x{% endfilter %})", raises},
      {R"({% filter %}x{% endfilter %})", raises},
      {R"({% filter upper %}a{{ 'b' }}{% if 1 %}c{% endif %}{% endfilter %})", R"(ABC)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, With) {
  static constexpr Recorded cases[] = {
      {R"({% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ b is defined }})",
       R"(1False12False)"},
      {R"({% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% with a, b = 3 %}{% endwith %})",
       raises},
      {R"({% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }})", R"(211)"},
      {R"({% with a %}{% endwith %})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, Generation) {
  static constexpr Recorded cases[] = {
      {R"({% generation %}a{{ 1 }}{% endgeneration %}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content | trim }}{% endif %}{% endfor %})",
       R"(a1Hi <b>Yo)"},
      {R"({% generation %}{% set a = 1 %}{{ a }}{% endgeneration %}{{ a is defined }})", R"(1False)"},
      {R"({% generation %}open)", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaStatements, Globals) {
  static constexpr Recorded cases[] = {
      {R"({{ range(3) | list }}{{ range(1, 3) | list }}{{ range(3, 0, -1) | list }}{{ range(0) | list }}{{ range(5, 1) | list }}{{ range(0, 10, 4) | list }}{{ range(3) | length }}{{ range(3)[1] }}{{ range(true) | list }}{{ range(-3) | list }})",
       R"([0, 1, 2][1, 2][3, 2, 1][][][0, 4, 8]31[0][])"},
      {R"({{ range(4)[-1] }} {{ range(4)[1:3] | list }} {{ range(3) | sum }} {{ range(3) | join }} {{ range(3) is iterable }} {{ range(3) is sequence }} {{ range(3) is string }} {{ 2 in range(3) }} {{ range(3) | last }})",
       R"(3 [1, 2] 3 012 True True False True 2)"},
      {R"({{ dict() }}{{ dict(a=1, b='x') }}{{ dict({'a': 1}, a=2) }}{{ dict([('a', 1), ['b', 2]]) }}{{ dict(a=1).a }})",
       R"({}{'a': 1, 'b': 'x'}{'a': 2}{'a': 1, 'b': 2}1)"},
      {R"({{ range() }})", raises},
      {R"({{ range('a') }})", raises},
      {R"({{ range(1, 2, 0) }})", raises},
      {R"({{ range(1.5) }})", raises},
      {R"({{ range(1, 2, 3, 4) }})", raises},
      {R"({{ range(100001) }})", raises},
      {R"({{ dict(1) }})", raises},
      {R"({{ dict([1]) }})", raises},
      {R"({{ dict(['abc']) }})", raises},
      {R"({{ raise_exception('no') }})", raises},
      {R"({{ raise_exception() }})", raises},
      {R"({{ nope() }})", raises},
      {R"({{ namespace.x is defined }})", R"(False)"},
      {R"({% include 'x' %})", raises},
      {R"({% extends 'x' %})", raises},
      {R"({% import 'x' as y %})", raises},
      {R"({% do names.append(1) %})", raises},
      {R"({% nope %})", raises},
      {R"({% %})", raises},
  };
  expect_as_recorded(cases);
}

}  // namespace
}  // namespace duoka::data::testing
