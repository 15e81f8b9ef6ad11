// SPDX-License-Identifier: Apache-2.0
// Every method of strings, lists and dicts a template may call.
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

TEST(JinjaMethods, Strip) {
  static constexpr Recorded cases[] = {
      {R"([{{ '  a '.strip() }}][{{ '  a '.lstrip() }}][{{ '  a '.rstrip() }}][{{ blank.strip() }}][{{ 'xxaxx'.strip('x') }}][{{ 'abcab'.strip('ba') }}][{{ 'abc'.lstrip('cba') }}][{{ 'a\n\n'.rstrip('\n') }}][{{ '\u00a0\u3000a\u2028'.strip() }}][{{ ' a '.strip(none) }}][{{ ' a '.strip('') }}][{{ '你好你'.strip('你') }}][{{ ''.strip() }}][{{ '\x1f\x85a'.strip() }}][{{ '\u200ba'.strip() | length }}])",
       R"([a][a ][  a][x][a][c][][a][a][a][ a ][好][][a][2])"},
      {R"({{ 'a'.strip(1) }})", raises},
      {R"({{ 'a'.strip('a', 'b') }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Case) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a'.upper(1) }})", raises},
      {R"({{ 'Straße'.upper() }} {{ 'ÀÉ'.lower() }} {{ 'hELLO wORLD'.capitalize() }} {{ "it's a-b 2nd éa x1y".title() }} {{ ''.title() }}| {{ 'ǆ'.title() }} {{ 'ǆA'.capitalize() }} {{ 'ß'.capitalize() }} {{ "they're bill's".title() }} {{ '你a'.title() }} {{ 'aß ßa'.title() }})",
       R"(STRASSE àé Hello world It'S A-B 2Nd Éa X1Y | ǅ ǅa Ss They'Re Bill'S 你A Aß Ssa)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Split) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.split(',', maxsplit=0) }} {{ 'a,b,c'.split(sep=',') }} {{ ''.split(',') }} {{ 'abc'.split('abc') }} {{ 'a--b'.split('--') }} {{ 'a,b'.split(',', -1) }} {{ ',a,'.split(',') }} {{ 'aXXXb'.split('XX') }} {{ '你,好'.split(',') }})",
       R"(['a', 'b', '', 'c'] ['a', 'b,c'] ['a,b,c'] ['a', 'b', 'c'] [''] ['', ''] ['a', 'b'] ['a', 'b'] ['', 'a', ''] ['a', 'Xb'] ['你', '好'])"},
      {R"({{ ' a  b\n\tc '.split() }} {{ ''.split() }} {{ '   '.split() }} {{ ' a  b  c '.split(none, 1) }} {{ 'a b c'.split(maxsplit=1) }} {{ 'a\u3000b\xa0c'.split() }} {{ 'a b'.split(' ') }} {{ ' a '.split(' ') }} {{ ' a b '.split(none, 0) }})",
       R"(['a', 'b', 'c'] [] [] ['a', 'b  c '] ['a', 'b c'] ['a', 'b', 'c'] ['a', 'b'] ['', 'a', ''] ['a b '])"},
      {R"({{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.rsplit(',') }} {{ ' a  b  c '.rsplit(none, 1) }} {{ ' a b '.rsplit() }} {{ ''.rsplit(',') }} {{ 'aXXXb'.rsplit('XX', 1) }} {{ ' a b '.rsplit(none, 0) }} {{ 'a b c'.rsplit(maxsplit=1) }})",
       R"(['a,b', 'c'] ['a', 'b', 'c'] [' a  b', 'c'] ['a', 'b'] [''] ['aX', 'b'] [' a b'] ['a b', 'c'])"},
      {R"({{ 'a\nb\r\nc\rd'.splitlines() }} {{ ''.splitlines() }} {{ 'a\n'.splitlines() }} {{ '\n\n'.splitlines() }} {{ 'a\u2028b\x0cc\x1cd'.splitlines() }} {{ 'a\nb\r\n'.splitlines(true) }} {{ 'a\nb'.splitlines(keepends=true) }})",
       R"(['a', 'b', 'c', 'd'] [] ['a'] ['', ''] ['a', 'b', 'c', 'd'] ['a\n', 'b\r\n'] ['a\n', 'b'])"},
      {R"({{ '<think>a</think>b'.split('</think>')[-1].lstrip('\n') }} {{ '<think>a</think>b'.split('</think>')[0].split('<think>')[-1] }} {{ ('x</s>y'.split('</s>') | first) ~ '.' }})",
       R"(b a x.)"},
      {R"({{ 'a=b=c'.partition('=') }} {{ 'abc'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.rpartition('=') }} {{ ''.partition('x') }})",
       R"(('a', '=', 'b=c') ('abc', '', '') ('a=b', '=', 'c') ('', '', 'abc') ('', '', ''))"},
      {R"({{ 'a'.split('') }})", raises},
      {R"({{ 'a'.split(1) }})", raises},
      {R"({{ 'a'.split(',', 'b') }})", raises},
      {R"({{ 'a'.partition('') }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Find) {
  static constexpr Recorded cases[] = {
      {R"({{ 'héllo'.find('l') }} {{ 'héllo'.find('z') }} {{ 'héllo'.rfind('l') }} {{ 'abc'.find('') }} {{ 'abc'.rfind('') }} {{ ''.find('a') }} {{ 'abcabc'.find('c', 3) }} {{ 'abcabc'.find('a', 1, 3) }} {{ 'abcabc'.rfind('a', 0, 3) }} {{ 'abc'.find('b', -2) }} {{ 'abc'.find('', 3) }} {{ 'abc'.find('', 4) }})",
       R"(2 -1 3 0 3 -1 5 -1 0 1 3 -1)"},
      {R"({{ 'héllo'.index('l') }} {{ 'hello'.rindex('l') }} {{ 'abcabc'.index('a', 1) }})", R"(2 3 3)"},
      {R"({{ 'banana'.count('an') }} {{ 'aaaa'.count('aa') }} {{ 'ab'.count('') }} {{ 'ab'.count('z') }} {{ ''.count('') }} {{ 'banana'.count('a', 2) }} {{ 'banana'.count('a', 2, 4) }})",
       R"(2 2 3 0 1 2 1)"},
      {R"({{ 'abc'.startswith('ab') }} {{ 'abc'.startswith('') }} {{ 'abc'.startswith('abcd') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.startswith(()) }} {{ 'abc'.endswith('bc') }} {{ 'abc'.endswith(('a', 'c')) }} {{ 'é'.startswith('e') }} {{ 'abc'.startswith('b', 1) }} {{ 'abc'.startswith('b', 1, 1) }} {{ 'abc'.endswith('b', 0, 2) }} {{ ''.endswith('') }})",
       R"(True True False True False True True False True False True True)"},
      {R"({{ 'abc'.index('z') }})", raises},
      {R"({{ 'abc'.find(1) }})", raises},
      {R"({{ 'abc'.find() }})", raises},
      {R"({{ 'abc'.startswith(1) }})", raises},
      {R"({{ 'abc'.startswith(['a']) }})", raises},
      {R"({{ 'abc'.startswith() }})", raises},
      {R"({{ 'abc'.count(1) }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, ReplaceAndAffixes) {
  static constexpr Recorded cases[] = {
      {R"({{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '', 1) }} {{ 'ab'.replace('', '.') }} {{ 'aaa'.replace('a', 'b', 0) }} {{ 'aaa'.replace('a', 'b', -1) }} {{ ''.replace('', 'x') }} {{ '你好'.replace('好', '') }} {{ 'aaa'.replace('aa', 'b') }})",
       R"(a-b- abX .a.b. aaa bbb x 你 ba)"},
      {R"({{ 'pre-x'.removeprefix('pre-') }} {{ 'x'.removeprefix('y') }} {{ 'x.py'.removesuffix('.py') }} {{ 'x'.removesuffix('') }} {{ 'aa'.removeprefix('a') }} {{ 'a'.removeprefix('a') }}|)",
       R"(x x x x a |)"},
      {R"({{ 'a'.replace('a') }})", raises},
      {R"({{ 'a'.replace(1, 2) }})", raises},
      {R"({{ 'a'.replace('a', none) }})", raises},
      {R"({{ 'a'.removeprefix(1) }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Join) {
  static constexpr Recorded cases[] = {
      {R"({{ '-'.join(['a', 'b']) }} {{ ''.join([]) }}| {{ ','.join('abc') }} {{ ', '.join(names) }} {{ '-'.join({'a': 1, 'b': 2}) }} {{ '-'.join(('x',)) }} {{ '\n'.join(names | map('upper')) }})",
       R"(a-b | a,b,c Ann, bob, Cy a-b x ANN
BOB
CY)"},
      {R"({{ ','.join([1]) }})", raises},
      {R"({{ ','.join(5) }})", raises},
      {R"({{ ','.join() }})", raises},
      {R"({{ ','.join([none]) }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Format) {
  static constexpr Recorded cases[] = {
      {R"({{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}-{y}'.format(x=1, y=[2]) }} {{ '{{}}'.format() }} {{ '{}'.format(none) }} {{ '{} {n}'.format(1, n='é') }} {{ '{0}{0}'.format('ab') }} {{ 'plain'.format(1) }})",
       R"(1 a ba 1-[2] {} None 1 é abab plain)"},
      {R"({{ '%s' % 'a' }} {{ '%s %s' % ('a', 1) }} {{ '%d' % 3.9 }} {{ '%.2f' % 1.005 }} {{ '%.0f' % 2.5 }} {{ '%f' % 1 }} {{ '%%' % () }} {{ '%r' % 'a' }} {{ '%s' % [1] }} {{ '%i' % true }} {{ '%s' % none }} {{ '%.3s|' % 'abcdef' }})",
       R"(a a 1 3 1.00 2 1.000000 % 'a' [1] 1 None abc|)"},
      {R"({{ '%s' % () }})", raises},
      {R"({{ '%s' % ('a', 'b') }})", raises},
      {R"({{ '%d' % 'a' }})", raises},
      {R"({{ '%z' % 1 }})", raises},
      {R"({{ '%' % 1 }})", raises},
      {R"({{ 'a' % 1 }})", raises},
      {R"({{ '{}'.format() }})", raises},
      {R"({{ '{x}'.format(1) }})", raises},
      {R"({{ '{'.format() }})", raises},
      {R"({{ '}'.format() }})", raises},
      {R"({{ '%s' % {} }} {{ 'a' % {} }} {{ 'a' % [1] }})", R"({} a a)"},
      {R"({{ 'a' % 'b' }})", raises},
      {R"({{ 'a' % none }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Checks) {
  static constexpr Recorded cases[] = {
      {R"({{ '12'.isdigit() }} {{ '1a'.isdigit() }} {{ ''.isdigit() }} {{ '²'.isdigit() }} {{ '٣'.isdigit() }} {{ '½'.isdigit() }} {{ '-1'.isdigit() }} {{ ' \t'.isspace() }} {{ ''.isspace() }} {{ 'a '.isspace() }} {{ '\u3000'.isspace() }})",
       R"(True False False True True False False True False False True)"},
      {R"({{ 'ab1'.islower() }} {{ 'aB'.islower() }} {{ '1'.islower() }} {{ 'AB1'.isupper() }} {{ '1'.isupper() }} {{ ''.isupper() }} {{ 'ß'.islower() }} {{ 'É'.isupper() }} {{ '你'.islower() }} {{ 'ǅ'.isupper() }})",
       R"(True False False True False False True True False False)"},
      {R"({{ 'abc'.isalpha() }} {{ 'ab1'.isalpha() }} {{ '你好'.isalpha() }} {{ ''.isalpha() }} {{ 'ab1'.isalnum() }} {{ 'a_b'.isalnum() }} {{ '½'.isalnum() }} {{ '12'.isdecimal() }} {{ '²'.isdecimal() }} {{ 'é'.isascii() }} {{ ''.isascii() }} {{ 'ab'.isascii() }})",
       R"(True False True False True False True True False False True True)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Padding) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a'.ljust(3) }}| {{ 'a'.rjust(3) }}| {{ 'a'.center(4) }}| {{ 'ab'.center(5, '*') }} {{ '7'.zfill(3) }} {{ '-7'.zfill(3) }} {{ '你'.ljust(3, '.') }} {{ 'abc'.ljust(2) }} {{ '+1'.zfill(4) }} {{ 'abc'.center(4, '*') }} {{ 'ab'.center(3, '*') }})",
       R"(a  |   a|  a  | **ab* 007 -07 你.. abc +001 abc* *ab)"},
      {R"({{ 'a'.ljust('x') }})", raises},
      {R"({{ 'a'.ljust(3, 'xy') }})", raises},
      {R"({{ 'ab'.ljust(-9223372036854775807) }} {{ 'ab'.zfill(-9223372036854775807) }} {{ ''.rjust(0) }}| {{ 'ab'.find('b', -9223372036854775807, 9223372036854775807) }})",
       R"(ab ab | 1)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Lists) {
  static constexpr Recorded cases[] = {
      {R"({{ [1, 2, 1].index(1) }} {{ [1, 2, 1].count(1) }} {{ [1.0].index(1) }} {{ ['a', 'b'].index('b') }} {{ (1, 2).index(2) }} {{ [].count(1) }} {{ names.index('Cy') }} {{ [1, 2].copy() }})",
       R"(0 2 0 1 1 0 2 [1, 2])"},
      {R"({{ [1].index(2) }})", raises},
      {R"({{ [1].index() }})", raises},
      {R"({{ [1].append(2) }})", raises},
      {R"({{ [1].pop() }})", raises},
      {R"({{ [2, 1].sort() }})", raises},
      {R"({{ [1].extend([2]) }})", raises},
      {R"({{ [1].insert(0, 2) }})", raises},
      {R"({{ [1].reverse() }})", raises},
      {R"({{ [1].append is defined }} {{ {}.update is defined }})", R"(False False)"},
      {R"({{ (1,).copy() }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, Dicts) {
  static constexpr Recorded cases[] = {
      {R"({{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 'd') }} {{ {'a': none}.get('a', 'd') }} {{ {1: 'x'}.get(1.0) }} {{ nested.get('t').get('u').get('v') }} {{ {'a': 1}.get('b', {}).get('c', 'deep') }} {{ {'a': 1}.get(none) }})",
       R"(1 None d None x deep deep None)"},
      {R"({{ {'a': 1, 'b': 2}.keys() | list }} {{ {'a': 1, 'b': 2}.values() | list }} {{ {'a': 1, 'b': 2}.items() | list }} {{ {}.items() | list }} {{ {'a': 1}.keys() | length }} {{ {'a': 1}.items() | first }} {{ {'b': 1, 'a': 2}.keys() | sort }} {{ {'a': 1}.copy() }} {% for k in {'x': 1}.keys() %}{{ k }}{% endfor %})",
       R"(['a', 'b'] [1, 2] [('a', 1), ('b', 2)] [] 1 ('a', 1) ['a', 'b'] {'a': 1} x)"},
      {R"({{ {'a': 1}.items() is iterable }} {{ {'a': 1}.keys() is sequence }} {{ 'yes' if {}.keys() else 'no' }} {{ {'a': 1}.keys() is string }} {{ 'a' in {'a': 1}.keys() }})",
       R"(True False no False True)"},
      {R"({{ {'a': 1}.get() }})", raises},
      {R"({{ {'a': 1}.get([1]) }})", raises},
      {R"({{ {'a': 1}.pop('a') }})", raises},
      {R"({{ {}.update({'a': 1}) }})", raises},
      {R"({{ {}.setdefault('a', 1) }})", raises},
      {R"({{ {}.clear() }})", raises},
      {R"({{ {'a': 1}.keys()[0] is defined }})", R"(False)"},
      {R"({{ {'a': 1}.nope() }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaMethods, NoMethods) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a'.nope() }})", raises},
      {R"({{ 5.upper() }})", raises},
      {R"({{ none.upper() }})", raises},
      {R"({{ missing.upper() }})", raises},
      {R"({{ messages.role }}|{{ messages.role is defined }})", R"(|False)"},
      {R"({{ messages.role() }})", raises},
      {R"({{ ''.__class__ }}|{{ ''.__class__ is defined }})", R"(|False)"},
      {R"({{ ''.__class__.__mro__ }})", raises},
      {R"({{ [].__len__() }})", raises},
      {R"({{ messages[0].content.nope.x }})", raises},
  };
  expect_as_recorded(cases);
}

}  // namespace
}  // namespace duoka::data::testing
