// SPDX-License-Identifier: Apache-2.0
// Values, operators, subscripts and conditions.
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

TEST(JinjaExpressions, NumbersPrintAsInPython) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 }} {{ -1 }} {{ 0 }} {{ -0 }} {{ 1.0 }} {{ -0.0 }} {{ 1.10 }} {{ 100000000000000000 }})",
       R"(1 -1 0 0 1.0 -0.0 1.1 100000000000000000)"},
      {R"({{ 1e15 }} {{ 1e16 }} {{ 123456789012345678.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1e22 }} {{ 1e-7 }} {{ 2.5e-10 }})",
       R"(1000000000000000.0 1e+16 1.2345678901234568e+17 0.0001 1e-05 1e+22 1e-07 2.5e-10)"},
      {R"({{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 2 / 3 }} {{ 1e16 + 1 }} {{ 3.0 * 1.1 }} {{ 100 * 1.1 }})",
       R"(0.30000000000000004 0.3333333333333333 0.6666666666666666 1e+16 3.3000000000000003 110.00000000000001)"},
      {R"({{ big }} {{ big + 1 }} {{ half }} {{ half * 2 }} {{ big * 1.0 }})",
       R"(9007199254740993 9007199254740994 0.5 1.0 9007199254740992.0)"},
      {R"({{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ 1e308 * 10 - 1e308 * 10 }})", R"(inf -inf nan)"},
      {R"({{ 9223372036854775807 }} {{ -9223372036854775807 }})",
       R"(9223372036854775807 -9223372036854775807)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, SumsAndProducts) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 10 - 4 - 3 }} {{ 2 * 3 % 4 }} {{ 7 - 2 * 3 + 1 }} {{ 1 + 1.0 }} {{ true + true }})",
       R"(7 9 3 2 2 2.0 2)"},
      {R"({{ 7 / 2 }} {{ 6 / 2 }} {{ -7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 // -2 }})",
       R"(3.5 3.0 -3.5 3 -4 -4 3)"},
      {R"({{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 % -3 }} {{ 6 % 3 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ -1 % 3.5 }})",
       R"(1 2 -2 -1 0 1.5 0.5 -0.5 2.5)"},
      {R"({{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.0 // 2 }} {{ 1 // 0.1 }} {{ 0.3 // 0.1 }} {{ -0.5 // 1 }} {{ 5.0 % 5 }} {{ -5.0 % 5 }})",
       R"(3.0 -4.0 3.0 9.0 2.0 -1.0 0.0 0.0)"},
      {R"({{ 2 ** 10 }} {{ 2 ** 0 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ (-2) ** 3 }} {{ 2 ** 0.5 }} {{ 2 ** 3 ** 2 }} {{ 0 ** 0 }} {{ 2.0 ** 3 }} {{ 2 ** 62 }})",
       R"(1024 1 0.5 4 -8 1.4142135623730951 64 1 8.0 4611686018427387904)"},
      {R"({{ (-1) ** 101 }} {{ 1 ** 1000 }} {{ (-8) // 3 * 3 + (-8) % 3 }})", R"(-1 1 -8)"},
      {R"({{ +1 }} {{ -(-1) }} {{ - -1 }} {{ +-1 }} {{ -true }} {{ -half }})", R"(1 1 1 -1 -1 -0.5)"},
      {R"({{ true * 3 }} {{ false + 1.5 }} {{ true / true }} {{ 3 * 'ab' }} {{ 'ab' * 0 }} {{ 'ab' * -1 }} {{ true * 'x' }} {{ [0] * 3 }} {{ (1, 2) * 2 }} {{ 2 * [1] }})",
       R"(3 1.5 1.0 ababab   x [0, 0, 0] (1, 2, 1, 2) [1, 1])"},
      {R"({{ 'a' + 'b' }} {{ [1] + [] + [2] }} {{ (1,) + (2, 3) }} {{ '' + '' }}|)",
       R"(ab [1, 2] (1, 2, 3) |)"},
      {R"({{ 1 / 0 }})", raises},
      {R"({{ 1 % 0 }})", raises},
      {R"({{ 1.0 // 0 }})", raises},
      {R"({{ 1 + 'a' }})", raises},
      {R"({{ 'a' + 1 }})", raises},
      {R"({{ 'a' - 'b' }})", raises},
      {R"({{ 'a' * 'b' }})", raises},
      {R"({{ 'a' * 1.5 }})", raises},
      {R"({{ [1] + (2,) }})", raises},
      {R"({{ [1] + 1 }})", raises},
      {R"({{ {} + {} }})", raises},
      {R"({{ none + 1 }})", raises},
      {R"({{ missing + 'a' }})", raises},
      {R"({{ 'a' + missing }})", raises},
      {R"({{ missing * 2 }})", raises},
      {R"({{ -missing }})", raises},
      {R"({{ -'a' }})", raises},
      {R"({{ +'a' }})", raises},
      {R"({{ -none }})", raises},
      {R"({{ 0 ** -1 }})", raises},
      {R"({{ 10.0 ** 400 }})", raises},
      {R"({{ 0.0 ** -1 }})", raises},
      {R"({{ -7.5 % 2.5 }} {{ 7.5 % -2.5 }} {{ 0.0 % -3 }})", R"(0.0 -0.0 -0.0)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, Comparisons) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 2 > 1 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 1 != 2 }} {{ 1 < 2.5 }} {{ true > false }} {{ 1 == true }} {{ 0 == false }})",
       R"(True True True False True True True True True True)"},
      {R"({{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 'a' < 'aa' }} {{ 'é' > 'z' }} {{ '' < 'a' }} {{ '🦙' > '你' }} {{ '10' < '9' }})",
       R"(True True True True True True True)"},
      {R"({{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ [] < [0] }} {{ (1, 'b') > (1, 'a') }} {{ [2] > [1, 9] }})",
       R"(True True True True True)"},
      {R"({{ [1, 2] == [1, 2] }} {{ [1] == (1,) }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} == {'a': 2} }} {{ 'a' == ['a'] }} {{ '1' == 1 }} {{ none == false }} {{ none == none }} {{ none != 0 }})",
       R"(True False True False False False False True True)"},
      {R"({{ big == 9007199254740993 }} {{ big == 9007199254740992.0 }} {{ big < 9007199254740994 }} {{ 1e308 * 10 > 5 }})",
       R"(True False True True)"},
      {R"({{ range(3) == range(3) }} {{ [range(2) | list] == [[0, 1]] }})", R"(True True)"},
      {R"({{ 1 < 'a' }})", raises},
      {R"({{ none < 1 }})", raises},
      {R"({{ [1] < ['a'] }})", raises},
      {R"({{ {} < {} }})", raises},
      {R"({{ missing < 1 }})", raises},
      {R"({{ 1 >= none }})", raises},
      {R"({{ [1] < (1,) }})", raises},
      {R"({{ missing == missing }} {{ missing == none }} {{ missing == '' }} {{ missing != 'a' }} {{ 'no' if not missing }})",
       R"(True False False True no)"},
      {R"({{ 1 == 1.0000000000000002 }} {{ big > 9007199254740992.0 }} {{ 9007199254740992.0 < big }} {{ big in [9007199254740992.0] }} {{ 9223372036854775807 < 9223372036854775808.0 }} {{ -1 < -0.5 }} {{ -0.5 > -1 }} {{ 0 == -0.0 }} {{ 2 >= 1.5 }} {{ 1.5 <= 1 }})",
       R"(False True True False True True True True True False)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, Membership) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a' in 'cat' }} {{ '' in 'cat' }} {{ 'ca' in 'cat' }} {{ 'tc' in 'cat' }} {{ 'A' in 'cat' }} {{ 'ö' in word }} {{ 'x' not in 'cat' }} {{ '' in '' }})",
       R"(True True True False False True True True)"},
      {R"({{ 1 in [1, 2] }} {{ '1' in [1] }} {{ 1.0 in [1] }} {{ [1] in [[1]] }} {{ none in [none] }} {{ 3 not in (1, 2) }} {{ 'a' in {'a': 1} }} {{ 1 in {'a': 1} }} {{ 1 in {1.0: 'x'} }} {{ 'a' in {'a': 1}.values() }} {{ 1 in {'a': 1}.values() }} {{ ('a', 1) in {'a': 1}.items() }})",
       R"(True False True True True True True False True False True True)"},
      {R"({{ 'role' in messages[0] }} {{ 'tool_calls' in messages[0] }} {{ 'x' in missing }} {{ missing in [1] }} {{ 2 in range(3) }} {{ 5 in range(3) }})",
       R"(True False False False True False)"},
      {R"({{ not 1 in [2] }} {{ not 'a' not in 'a' }} {{ 1 in [1] == true }} {{ 'a' in 'ab' and 'b' in 'ab' }})",
       R"(True True False True)"},
      {R"({{ 1 in 'a1' }})", raises},
      {R"({{ 'a' in 5 }})", raises},
      {R"({{ 'a' in none }})", raises},
      {R"({{ [1] in {1: 2} }})", raises},
      {R"({{ none in 'a' }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, LogicGivesAnOperand) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or 'a' }} {{ '' or [] or 0 }} {{ 'a' or 1 / 0 }} {{ 0 and 1 / 0 }} {{ none or 'x' }} {{ missing or 'x' }} {{ 1 and '' or 'c' }})",
       R"(2 0 a 0 a 0 x x c)"},
      {R"({{ not 0 }} {{ not 'a' }} {{ not not [] }} {{ not none }} {{ not missing }} {{ not 0.0 }} {{ not {} }} {{ not () }} {{ not ' ' }} {{ not [0] }} {{ not [] | select }} {{ not range(0) }})",
       R"(True False False True True True True True False False False True)"},
      {R"({{ true and not false or false }} {{ false or true and false }} {{ not true == false }} {{ not (1 and 0) }} {{ 1 or 0 and 0 }})",
       R"(True False True True 1)"},
      {R"({{ messages and messages[0].role == 'user' and 'ok' }} {{ nested and nested.zzz and nested.zzz.y }}|)",
       R"(ok |)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, InlineIf) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a' if true else 'b' }} {{ 'a' if 0 else 'b' }} [{{ 'a' if 0 }}] {{ 'a' if 0 else 'b' if 0 else 'c' }} {{ ('a' if 1 else 'b') ~ 'c' }} {{ 'a' if 1 else 'b' ~ 'c' }} {{ 1 + 1 if 0 else 2 }})",
       R"(a b [] c ac a 2)"},
      {R"({{ [1 if true else 2, 3 if false else 4] }} {{ {'k': 'v' if true else 'w'} }} {{ 'x' if missing is defined and missing.y else 'z' }} {{ ('a' if 0) is defined }} {{ 'a' if 1 if 1 else 0 else 'c' }})",
       raises},
      {R"({{ (1 if 0) + 1 }})", raises},
      {R"({{ ('a' if 0).x }})", raises},
      {R"({{ 'a' + ('b' if false) }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, TildeJoinsAsText) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 ~ 2 }} {{ 'a' ~ none ~ true ~ 1.0 }} {{ [1] ~ {'a': 'b'} }} {{ missing ~ 'x' }} {{ 1 ~ 2 + 3 }} {{ 2 * 3 ~ 4 }} {{ 'a' ~ 'b' == 'ab' }} {{ 1 + 2 ~ 3 }} {{ -1 ~ -2 }})",
       raises},
      {R"({{ 'a' ~ 'b' | upper }} {{ ('a' ~ 'b') | upper }} {{ 'a' ~ ('b' if 0) ~ 'c' }} {{ () ~ (1,) }} {{ 'x' ~ 'y' * 2 }})",
       R"(aB AB ac ()(1,) xyy)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, TextSubscripts) {
  static constexpr Recorded cases[] = {
      {R"({{ word[0] }}{{ word[1] }}{{ word[-1] }}{{ cjk[2] }}{{ cjk[-3] }} [{{ word[99] }}] [{{ ''[0] }}])",
       R"(héd🦙你 [] [])"},
      {R"({{ word[1:3] }} {{ word[:2] }} {{ word[-3:] }} {{ word[:-3] }} {{ word[::2] }} {{ word[::-1] }} {{ word[8:2:-2] }} {{ word[5:5] }}| {{ word[9:100] }} {{ word[-100:2] }} {{ word[:] }} {{ word[::] }} {{ cjk[1:] }} {{ cjk[::-1] }})",
       R"(él hé rld héllo wö hlowrd dlröw olléh rwo | ld hé héllo wörld héllo wörld 好🦙 🦙好你)"},
      {R"({{ 'abc'[none:none] }} {{ 'abc'[true:] }} {{ 'abc'[0:3:2] }} {{ 'abc'[:99999999999] }} {{ 'abc'[-99999999999:] }} {{ 'abc'[::99999999999] }} {{ 'abc'[::-99999999999] }} {{ 'abc'[2:0] }}|)",
       R"(abc bc ac abc abc a c |)"},
      {R"({{ messages[0].content[1:3] }} {{ messages[0]['content'][::-1] }})", R"(Hi 
>b< iH )"},
      {R"({{ 'abc'[::0] }})", raises},
      {R"({{ 'abc'['a':] }})", R"()"},
      {R"({{ 'abc'[1.5:] }})", R"()"},
      {R"({{ 'abc'[1.0] is defined }} {{ 'abc'['a'] is defined }} {{ 'abc'[none] is defined }})",
       R"(False False False)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, SequenceSubscripts) {
  static constexpr Recorded cases[] = {
      {R"({{ [1, 2, 3][0] }} {{ [1, 2, 3][-1] }} [{{ [1][5] }}] [{{ [1][-5] }}] {{ (1, 2)[1] }} {{ [[1, 2], [3]][0][1] }} {{ [1, 2][true] }} {{ names.1 }} {{ names.0[1] }})",
       R"(1 3 [] [] 2 2 2 bob n)"},
      {R"({{ [1, 2, 3, 4, 5][1:4] }} {{ [1, 2, 3, 4, 5][::-2] }} {{ (1, 2, 3)[:-1] }} {{ [][1:] }} {{ [1, 2, 3][5:] }} {{ [1, 2, 3][-2:] }} {{ [1, 2, 3][:0] }} {{ [1, 2, 3, 4][-1:0:-1] }} {{ [1, 2, 3][::-1][0] }})",
       R"([2, 3, 4] [5, 3, 1] (1, 2) [] [] [2, 3] [] [4, 3, 2] 3)"},
      {R"({{ messages[1:] | length }} {{ messages[-1].role }} {{ messages[::-1][0]['role'] }} {{ messages[5] is defined }} {{ (messages[5] | default({'role': 'none'})).role }})",
       R"(1 assistant assistant False none)"},
      {R"({{ names[none] is defined }} {{ names['Ann'] is defined }} {{ names[0.0] is defined }})",
       R"(False False False)"},
      {R"({{ [1][5].x }})", raises},
      {R"({{ [1, 2][::0] }})", raises},
      {R"({{ missing[0] }})", raises},
      {R"({{ missing[0:1] }})", raises},
      {R"({{ (1, 2)['a':'b'] }})", R"()"},
      {R"({{ [1, 2]['a':] is defined }} {{ 'abc'[none:1.5] is defined }} {{ 5[0:1] is defined }} {{ none[1:] is defined }})",
       R"(False False False False)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, MappingSubscripts) {
  static constexpr Recorded cases[] = {
      {R"({{ {'a': 1}['a'] }} {{ {'a': 1}.a }} [{{ {'a': 1}.b }}] [{{ {'a': 1}['b'] }}] {{ {1: 'x'}[1] }} {{ {1: 'x'}[1.0] }} {{ {1: 'x'}[true] }} {{ {none: 'n'}[none] }} {{ {(1, 2): 't'}[(1, 2)] }} {{ {'': 'e'}[''] }} {{ {true: 'y'}[1] }})",
       R"(1 1 [] [] x x x n t e y)"},
      {R"({{ nested.a[0] }} {{ nested['a'][1]['b'] }} {{ nested.t.u.v }} {{ nested['t'].u['v'] }} {{ nested['items'] }} {{ nested.items is callable }} {{ nested['nope'] is defined }} {{ nested.nope is undefined }})",
       R"(1 None deep deep 3 True False True)"},
      {R"({{ {'a': 1, 'a': 2} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {'b': 1, 'a': 2} }} {{ {'a': {'b': {'c': []}}} }})",
       R"({'a': 2} {1: 'c'} {'b': 1, 'a': 2} {'a': {'b': {'c': []}}})"},
      {R"({{ {'get': 5}.get('get') }} {{ {'get': 5}['get'] }} {{ {'keys': 5}.keys() | list }} {{ {'upper': 1}.upper }})",
       R"(5 5 ['keys'] 1)"},
      {R"({{ nested.nope.deeper }})", raises},
      {R"({{ nested['nope']['x'] }})", raises},
      {R"({{ nested.a.b.c }})", raises},
      {R"({{ {[1]: 2} }})", raises},
      {R"({{ {{}: 2} }})", raises},
      {R"({{ {'a': 1}[1:2] is defined }})", R"(False)"},
      {R"({{ {'a': 1}[[1]] is defined }})", R"(False)"},
      {R"({{ nothing.x is defined }} {{ nothing['x'] is defined }} {{ half.x is defined }})",
       R"(False False False)"},
      {R"({{ nothing.x.y }})", raises},
      {R"({{ {'a': 1}[{}] is defined }} {{ {'a': 1}[([1], 2)] is defined }} {{ {(1, 'a'): 2}[(1, 'a')] }})",
       R"(False False 2)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, ValuesInsideValuesPrintAsRepr) {
  static constexpr Recorded cases[] = {
      {R"({{ ['a', "it's", '"q"', 'both \' "', 1, 1.0, none, true, missing] }})",
       R"(['a', "it's", '"q"', 'both \' "', 1, 1.0, None, True, Undefined])"},
      {R"({{ ('a',) }} {{ () }} {{ [] }} {{ {} }} {{ [[], (), {}] }} {{ {'k': [1, {'x': (2,)}]} }} {{ [-0.0, 1e16, 1e-5] }})",
       R"(('a',) () [] {} [[], (), {}] {'k': [1, {'x': (2,)}]} [-0.0, 1e+16, 1e-05])"},
      {R"({{ ['\n\t\r\\', '\x00\x1f\x7f', 'é你🦙', '\u00a0\u200b\u2028\ufeff\u00ad', '\u0301\ue000'] }})",
       R"(['\n\t\r\\', '\x00\x1f\x7f', 'é你🦙', '\xa0\u200b\u2028\ufeff\xad', '́\ue000'])"},
      {R"({{ [quote, word, blank, empty, cjk] }})",
       R"(['it\'s "so" \\ <b>&', 'héllo wörld', '  \n x \t', '', '你好🦙'])"},
      {R"({{ nested }} {{ names }} {{ people[0] }})",
       R"({'a': [1, {'b': None}], 'é': 'ü', 'items': 3, 't': {'u': {'v': 'deep'}}} ['Ann', 'bob', 'Cy'] {'name': 'Ann', 'age': 31, 'town': {'zip': 10}})"},
      {R"({{ [1, 2] | string ~ '!' }} {{ {'a': 'b'} | string | length }} {{ [none] | join }} {{ ['a', ['b']] | join('-') }})",
       R"([1, 2]! 10 None a-['b'])"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, TuplesWithoutBrackets) {
  static constexpr Recorded cases[] = {
      {R"({{ 1, 2 }} {{ 1, }} {{ 'a', ['b'] }} {{ (1, 2), 3 }})", R"((1, 2) (1,) ('a', ['b']) ((1, 2), 3))"},
      {R"({{ () | length }} {{ (1) }} {{ ((1, 2)) }} {{ (1,)[0] }})", R"(0 1 (1, 2) 1)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaExpressions, CallsOfFilters) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a' | upper | lower | length }} {{ [3, 1] | sort | first }} {{ 'a,b' | replace(',', ';') | upper }} {{ 1 + 2 | string | length }} {{ -1 | abs }} {{ (-1) | abs }} {{ not true | string }} {{ 'a' in 'abc' | upper }})",
       R"(1 1 A;B 2 1 1 False False)"},
      {R"({{ names | map('upper') | join(', ') }} {{ names | first | lower ~ '!' }} {{ 'x' | upper if 1 else 'y' }} {{ [1, 2] | length == 2 }} {{ 2 ** 3 | string | length }})",
       R"(ANN, BOB, CY ann! X True 2)"},
      {R"({{ nested.a | first + 1 }} {{ 'a b'.split() | last }} {{ ('a' + 'b').upper()[0] }} {{ 'abc'.upper().lower()[1:].strip('c') }})",
       R"(2 b A b)"},
  };
  expect_as_recorded(cases);
}

}  // namespace
}  // namespace duoka::data::testing
