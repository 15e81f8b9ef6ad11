// SPDX-License-Identifier: Apache-2.0
// What is said of templates that fail: the line, what is wrong, and the expression it is in.
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

TEST(JinjaErrors, LinesOfTheSource) {
  static constexpr Mistake cases[] = {
      {R"(a
b
{{ 1 + }})",
       R"(t.jinja:3: expected an expression, found '}}')"},
      {R"({% if x %}

{% endfor %})",
       R"(t.jinja:3: {% endfor %} without its beginning)"},
      {R"({{ 'a
b' | nope }})",
       R"(t.jinja:2: unknown filter 'nope')"},
      {R"({# a
b #}
{{ ) }})",
       R"(t.jinja:3: unexpected ')')"},
      {R"({% raw %}
{{ }}
{% endraw %}
{{ ! }})",
       R"(t.jinja:4: unexpected character '!')"},
      {R"(

{{ 'open)",
       R"(t.jinja:3: a string is never closed)"},
      {R"(a
{{ (1,
2 }})",
       R"(t.jinja:3: unexpected '}')"},
      {R"(a
{{ 1
)",
       R"(t.jinja:2: a tag {{ is never closed)"},
      {R"({% for x in y %}
{% if x %}
{% endif %})",
       R"(t.jinja:3: expected {% endfor %}, found the end of the template)"},
      {R"(
{% macro m() %}
x)",
       R"(t.jinja:3: expected {% endmacro %}, found the end of the template)"},
      {R"(
{# never)",
       R"(t.jinja:2: a comment {# is never closed)"},
      {R"(
{% raw %}
never)",
       R"(t.jinja:2: {% raw %} is never closed)"},
  };
  expect_messages(cases);
}

TEST(JinjaErrors, LinesOfTheFailure) {
  static constexpr Mistake cases[] = {
      {R"(

{{ 1 / 0 }})",
       R"(t.jinja:3: division by zero, in `1 / 0`)"},
      {R"({% set x = 1 %}
{{ x
.y
.z }})",
       R"(t.jinja:4: a int has no attribute 'y', in `x .y .z`)"},
      {R"({% for m in messages %}
{{ m.content.nope.x }}
{% endfor %})",
       R"(t.jinja:2: a str has no attribute 'nope', in `m.content.nope.x`)"},
      {R"({% macro f(a) %}

{{ a + 1 }}{% endmacro %}
{{ f('x') }})",
       R"(t.jinja:3: cannot compute str + int, in `a + 1`)"},
      {R"({% if messages %}
{{ messages | sum }}
{% endif %})",
       R"(t.jinja:2: cannot compute int + dict, in `messages | sum`)"},
      {R"(
{% for a, b in names %}{% endfor %})",
       R"(t.jinja:2: cannot unpack 3 values into 2 names, in `{% for a, b in names %}{% endfor %}`)"},
      {R"(
{% set a, b = 1 %})",
       R"(t.jinja:2: a value of type int cannot be iterated over, in `{% set a, b = 1 %}`)"},
      {R"(
{% set nested.x = 1 %})",
       R"(t.jinja:2: only attributes of a namespace() can be set, and 'nested' is none, in `{% set nested.x = 1 %}`)"},
      {R"(a
{% filter int(base=99) %}x{% endfilter %})",
       R"(t.jinja:2: int with base 99; 2 to 36 are possible, in `int(base=99)`)"},
      {R"(
{{ raise_exception('No system role') }})",
       R"(the chat template refuses the conversation: No system role (t.jinja:2))"},
      {R"(
{% if messages[0].role != 'system' %}
{{ raise_exception('Roles: ' ~ messages[0].role) }}{% endif %})",
       R"(the chat template refuses the conversation: Roles: user (t.jinja:3))"},
  };
  expect_messages(cases);
}

TEST(JinjaErrors, UndefinedSaysWhatIsMissing) {
  static constexpr Mistake cases[] = {
      {R"({{ missing.x }})", R"(t.jinja:1: 'missing' is undefined, in `missing.x`)"},
      {R"({{ missing[0] }})", R"(t.jinja:1: 'missing' is undefined, in `missing[0]`)"},
      {R"({{ missing() }})", R"(t.jinja:1: 'missing' is undefined, in `missing()`)"},
      {R"({{ missing + 1 }})", R"(t.jinja:1: 'missing' is undefined, in `missing + 1`)"},
      {R"({{ -missing }})", R"(t.jinja:1: 'missing' is undefined, in `-missing`)"},
      {R"({{ missing < 1 }})", R"(t.jinja:1: 'missing' is undefined, in `missing < 1`)"},
      {R"({{ messages[5].role }})", R"(t.jinja:1: a list has no such item, in `messages[5].role`)"},
      {R"({{ messages[0].name.first }})",
       R"(t.jinja:1: a dict has no attribute 'name', in `messages[0].name.first`)"},
      {R"({{ nested['nope']['x'] }})",
       R"(t.jinja:1: a dict has no attribute 'nope', in `nested['nope']['x']`)"},
      {R"({{ nested.a[7].x }})", R"(t.jinja:1: a list has no such item, in `nested.a[7].x`)"},
      {R"({{ ([] | first).x }})", R"(t.jinja:1: first of an empty sequence, in `[] | first).x`)"},
      {R"({{ ([] | max) + 1 }})", R"(t.jinja:1: max of an empty sequence, in `([] | max) + 1`)"},
      {R"({{ ('x' if 0) + 'a' }})",
       R"(t.jinja:1: the inline if has no else, and its condition is false, in `('x' if 0) + 'a'`)"},
      {R"({{ none.x.y }})", R"(t.jinja:1: a NoneType has no attribute 'x', in `none.x.y`)"},
      {R"({{ 'abc'.nope() }})", R"(t.jinja:1: a str has no attribute 'nope', in `'abc'.nope()`)"},
      {R"({{ messages.append(1) }})",
       R"(t.jinja:1: 'append' of a list is not allowed: templates cannot change values, make a new one with +, in `messages.append(1)`)"},
      {R"({{ ''.__class__.__mro__ }})",
       R"(t.jinja:1: '__class__' of a str is Python's own, and not allowed in templates, in `''.__class__.__mro__`)"},
      {R"({{ namespace().x.y }})", R"(t.jinja:1: a namespace has no attribute 'x', in `namespace().x.y`)"},
      {R"({% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }})",
       R"(t.jinja:1: parameter 'a' was not given, in `a.x`)"},
      {R"({% for x in names %}{% if loop.first %}{{ loop.previtem.x }}{% endif %}{% endfor %})",
       R"(t.jinja:1: there is no previous item, in `loop.previtem.x`)"},
      {R"({{ missing | int }})", R"(t.jinja:1: 'missing' is undefined, in `missing | int`)"},
      {R"({{ missing | tojson }})",
       R"(t.jinja:1: a value of type undefined cannot be written as JSON, in `missing | tojson`)"},
      {R"({{ names['a':].x }})", R"(t.jinja:1: a slice needs whole numbers, not str, in `names['a':].x`)"},
  };
  expect_messages(cases);
}

TEST(JinjaErrors, TypesThatDoNotFit) {
  static constexpr Mistake cases[] = {
      {R"({{ 1 + 'a' }})", R"(t.jinja:1: cannot compute int + str, in `1 + 'a'`)"},
      {R"({{ 'a' + none }})", R"(t.jinja:1: cannot compute str + NoneType, in `'a' + none`)"},
      {R"({{ [] + {} }})", R"(t.jinja:1: cannot compute list + dict, in `[] + {}`)"},
      {R"({{ 'a' * 'b' }})", R"(t.jinja:1: cannot compute str * str, in `'a' * 'b'`)"},
      {R"({{ {} < {} }})", R"(t.jinja:1: cannot order dict and dict, in `{} < {}`)"},
      {R"({{ 1 in 5 }})", R"(t.jinja:1: 'in' does not work on a int, in `1 in 5`)"},
      {R"({{ 1 in 'a' }})", R"(t.jinja:1: 'in' on a string needs a string, not int, in `1 in 'a'`)"},
      {R"({{ {[]: 1} }})",
       R"(t.jinja:1: a list cannot be a key; use a string, a number or a tuple, in `{[]: 1}`)"},
      {R"({{ 5() }})", R"(t.jinja:1: a value of type int cannot be called, in `5()`)"},
      {R"({{ 5 | length }})", R"(t.jinja:1: a value of type int has no length, in `5 | length`)"},
      {R"({{ 5 | list }})", R"(t.jinja:1: a value of type int cannot be iterated over, in `5 | list`)"},
      {R"({{ none | join }})",
       R"(t.jinja:1: a value of type NoneType cannot be iterated over, in `none | join`)"},
      {R"({{ 5 | items }})", R"(t.jinja:1: items needs a mapping, not int, in `5 | items`)"},
      {R"({{ [1] | dictsort }})", R"(t.jinja:1: dictsort needs a mapping, not list, in `[1] | dictsort`)"},
      {R"({{ 'a' | round }})", R"(t.jinja:1: round of a value of type str, in `'a' | round`)"},
      {R"({{ 'a' | abs }})", R"(t.jinja:1: abs of a value of type str, in `'a' | abs`)"},
      {R"({{ -'a' }})", R"(t.jinja:1: cannot negate a str, in `-'a'`)"},
      {R"({{ 'a' is odd }})", R"(t.jinja:1: a number is tested, not a str, in `'a' is odd`)"},
      {R"({{ [1, 'a'] | sort }})", R"(t.jinja:1: cannot order str and int, in `[1, 'a'] | sort`)"},
      {R"({{ ','.join([1]) }})", R"(t.jinja:1: join() needs strings, not int, in `','.join([1])`)"},
      {R"({{ 'a'.split('') }})",
       R"(t.jinja:1: split() needs a separator that is not empty, in `'a'.split('')`)"},
      {R"({{ 'a'.replace('a') }})", R"(t.jinja:1: replace needs a string, in `'a'.replace('a')`)"},
      {R"({{ 'a'.startswith(['a']) }})",
       R"(t.jinja:1: startswith needs a string, not list, in `'a'.startswith(['a'])`)"},
      {R"({{ 'abc'.index('z') }})",
       R"(t.jinja:1: index() of a text that is not there; find() gives -1 instead, in `'abc'.index('z')`)"},
      {R"({{ 'a'.ljust(3, 'ab') }})",
       R"(t.jinja:1: padding needs one character to fill with, in `'a'.ljust(3, 'ab')`)"},
      {R"({{ '%d' % 'a' }})", R"(t.jinja:1: %d needs a number, not str, in `'%d' % 'a'`)"},
      {R"({{ '%s %s' % 'a' }})",
       R"(t.jinja:1: a format asks for more values than were given, in `'%s %s' % 'a'`)"},
      {R"({{ 'a' % 1 }})", R"(t.jinja:1: a format was given more values than it asks for, in `'a' % 1`)"},
      {R"({{ '{}'.format() }})", R"(t.jinja:1: format() got no value for field 0, in `'{}'.format()`)"},
      {R"({{ '{:>5}'.format(1) }})",
       R"(t.jinja:1: format() fields are {}, {0} or {name} only, not {:>5}, in `'{:>5}'.format(1)`)"},
      {R"({{ range | tojson }})",
       R"(t.jinja:1: a value of type function cannot be written as JSON, in `range | tojson`)"},
      {R"({{ {'a': 1}.keys() | tojson }})",
       R"(t.jinja:1: a dict view cannot be written as JSON; make it a list first, in `{'a': 1}.keys() | tojson`)"},
      {R"({{ range(1, 2, 0) }})", R"(t.jinja:1: range needs a step that is not 0, in `range(1, 2, 0)`)"},
      {R"({{ range(200000) }})", R"(t.jinja:1: range has more than 100,000 numbers, in `range(200000)`)"},
      {R"({{ [1, 2][::0] }})", R"(t.jinja:1: a slice's step cannot be 0, in `[1, 2][::0]`)"},
      {R"({{ 1 // 0 }})", R"(t.jinja:1: division by zero, in `1 // 0`)"},
      {R"({{ 0 ** -1 }})", R"(t.jinja:1: 0 cannot be raised to a negative power, in `0 ** -1`)"},
      {R"({{ (-8) ** 0.5 }})",
       R"(t.jinja:1: a negative number to a power that is not whole is no real number, in `(-8) ** 0.5`)"},
      {R"({{ 10.0 ** 400 }})", R"(t.jinja:1: the result of ** is too large, in `10.0 ** 400`)"},
      {R"({{ 9223372036854775807 * 2 }})",
       R"(t.jinja:1: the result of * does not fit into 64 bits, in `9223372036854775807 * 2`)"},
      {R"({{ 2 ** 64 }})", R"(t.jinja:1: the result of ** does not fit into 64 bits, in `2 ** 64`)"},
      {R"({{ dict([1]) }})", R"(t.jinja:1: a value of type int cannot be iterated over, in `dict([1])`)"},
      {R"({{ namespace(_x=1) }})",
       R"(t.jinja:1: a namespace's attributes cannot begin with '_', in `namespace(_x=1)`)"},
  };
  expect_messages(cases);
}

TEST(JinjaErrors, Arguments) {
  static constexpr Mistake cases[] = {
      {R"({{ 'a' | upper(1) }})",
       R"(t.jinja:1: upper takes 0 arguments at most, not 1, in `'a' | upper(1)`)"},
      {R"({{ 'a' | trim(x=1) }})", R"(t.jinja:1: trim has no argument named 'x', in `'a' | trim(x=1)`)"},
      {R"({{ 'a' | replace('a', 'b', old='c') }})",
       R"(t.jinja:1: replace got its argument 'old' twice, in `'a' | replace('a', 'b', old='c')`)"},
      {R"({{ [1] | batch }})", R"(t.jinja:1: batch needs a size of at least 1, in `[1] | batch`)"},
      {R"({{ [1] | map }})", R"(t.jinja:1: map needs a filter's name or attribute=, in `[1] | map`)"},
      {R"({{ [1] | map('nope') }})", R"(t.jinja:1: unknown filter 'nope', in `[1] | map('nope')`)"},
      {R"({{ [1] | select('nope') }})",
       R"(t.jinja:1: unknown test 'nope'; is 'none' meant?, in `[1] | select('nope')`)"},
      {R"({{ [1] | selectattr }})",
       R"(t.jinja:1: selectattr needs an attribute's name, in `[1] | selectattr`)"},
      {R"({{ [1] | groupby }})", R"(t.jinja:1: groupby needs an attribute's name, in `[1] | groupby`)"},
      {R"({{ 1 is divisibleby }})",
       R"(t.jinja:1: divisibleby needs a number that is not 0, in `1 is divisibleby`)"},
      {R"({{ 1 is eq }})", R"(t.jinja:1: the test needs a value to compare with, in `1 is eq`)"},
      {R"({{ 1 is odd(2) }})", R"(t.jinja:1: the test takes 0 arguments at most, not 1, in `1 is odd(2)`)"},
      {R"({{ 'a'.upper(1) }})",
       R"(t.jinja:1: change of case takes 0 arguments at most, not 1, in `'a'.upper(1)`)"},
      {R"({{ {}.get() }})", R"(t.jinja:1: get() needs a key, in `{}.get()`)"},
      {R"({{ range() }})", R"(t.jinja:1: range needs at least one number, in `range()`)"},
      {R"({% macro m(a) %}{% endmacro %}{{ m(1, 2) }})",
       R"(t.jinja:1: macro 'm' takes 1 argument at most, not 2, in `m(1, 2)`)"},
      {R"({% macro m(a) %}{% endmacro %}{{ m(b=1) }})",
       R"(t.jinja:1: macro 'm' has no argument named 'b', in `m(b=1)`)"},
      {R"({% macro m(a) %}{% endmacro %}{{ m(1, a=2) }})",
       R"(t.jinja:1: macro 'm' got its argument 'a' twice, in `m(1, a=2)`)"},
      {R"({{ [1] | tojson(separators=1) }})",
       R"(t.jinja:1: tojson's separators are a pair of strings; the first one is not, in `[1] | tojson(separators=1)`)"},
      {R"({{ 1 | round(99) }})", R"(t.jinja:1: round to 99 digits; 20 at most, in `1 | round(99)`)"},
      {R"({{ 1.5 | round(1, 'up') }})",
       R"(t.jinja:1: round's method is 'common', 'ceil' or 'floor', in `1.5 | round(1, 'up')`)"},
      {R"({{ {} | dictsort(by='x') }})",
       R"(t.jinja:1: dictsort sorts by 'key' or by 'value', in `{} | dictsort(by='x')`)"},
      {R"({{ 'a' | indent(5000) }})",
       R"(t.jinja:1: indent by 5000 blanks; 1000 at most, in `'a' | indent(5000)`)"},
  };
  expect_messages(cases);
}

TEST(JinjaErrors, SourcesThatDoNotParse) {
  static constexpr Mistake cases[] = {
      {R"({{ }})", R"(t.jinja:1: expected an expression, found '}}')"},
      {R"({{ a b }})", R"(t.jinja:1: expected '}}', found 'b')"},
      {R"({{ 1 + }})", R"(t.jinja:1: expected an expression, found '}}')"},
      {R"({{ a. }})", R"(t.jinja:1: expected a name behind '.', found '}}')"},
      {R"({{ a.'b' }})", R"(t.jinja:1: expected a name behind '.', found a string)"},
      {R"({{ [1, 2 }})", R"(t.jinja:1: unexpected '}')"},
      {R"({{ {1: } }})", R"(t.jinja:1: expected an expression, found '}')"},
      {R"({{ {1} }})", R"(t.jinja:1: expected ':', found '}')"},
      {R"({{ f(a=1, 2) }})", R"(t.jinja:1: a positional argument follows a named one)"},
      {R"({{ f(*a) }})", R"(t.jinja:1: unpacking arguments with * is not supported; pass them one by one)"},
      {R"({{ a[] }})", R"(t.jinja:1: expected an index between [ and ])"},
      {R"({{ a[1:2:3:4] }})", R"(t.jinja:1: a slice has two colons at most)"},
      {R"({{ 1 is odd is even }})", R"(t.jinja:1: tests cannot be chained; use 'and' between them)"},
      {R"({{ 'a }})", R"(t.jinja:1: a string is never closed)"},
      {R"({{ a ! b }})", R"(t.jinja:1: unexpected character '!')"},
      {R"({{ a ? b : c }})", R"(t.jinja:1: unexpected character '?')"},
      {R"({{ 99999999999999999999 }})",
       R"(t.jinja:1: the number 99999999999999999999 does not fit into 64 bits)"},
      {R"({{ 007 }})", R"(t.jinja:1: the whole number 007 begins with 0)"},
      {R"({{ 0xg }})", R"(t.jinja:1: '0xg' is no number of base 16 that fits into 64 bits)"},
      {R"({{ a | }})", R"(t.jinja:1: expected a filter's name, found '}}')"},
      {R"({{ a | uper }})", R"(t.jinja:1: unknown filter 'uper'; is 'upper' meant?)"},
      {R"({{ a is definedd }})", R"(t.jinja:1: unknown test 'definedd'; is 'defined' meant?)"},
      {R"({% %})", R"(t.jinja:1: expected a tag's name, found '%}')"},
      {R"({% nope %})",
       R"(t.jinja:1: unknown tag 'nope'; known are if, for, set, macro, call, filter, with, raw, generation, break and continue)"},
      {R"({% includ 'x' %})",
       R"(t.jinja:1: unknown tag 'includ'; known are if, for, set, macro, call, filter, with, raw, generation, break and continue)"},
      {R"({% endif %})", R"(t.jinja:1: {% endif %} without its beginning)"},
      {R"({% else %})", R"(t.jinja:1: {% else %} without its beginning)"},
      {R"({% if %}{% endif %})", R"(t.jinja:1: expected an expression, found '%}')"},
      {R"({% if a %}{% elif %}{% endif %})", R"(t.jinja:1: expected an expression, found '%}')"},
      {R"({% if a }}{% endif %})", R"(t.jinja:1: unexpected '}')"},
      {R"({% for %}{% endfor %})", R"(t.jinja:1: expected a name to assign to, found '%}')"},
      {R"({% for x %}{% endfor %})", R"(t.jinja:1: expected 'in', found '%}')"},
      {R"({% for x in y recursive %}{% endfor %})",
       R"(t.jinja:1: recursive loops are not supported; use a macro that calls itself)"},
      {R"({% for loop in y %}{% endfor %})", R"(t.jinja:1: cannot assign to 'loop')"},
      {R"({% set %})", R"(t.jinja:1: expected a name to assign to, found '%}')"},
      {R"({% set a %})", R"(t.jinja:1: expected {% endset %}, found the end of the template)"},
      {R"({% set none = 1 %})", R"(t.jinja:1: cannot assign to 'none')"},
      {R"({% set a = 1 = 2 %})", R"(t.jinja:1: expected '%}', found '=')"},
      {R"({% macro %}{% endmacro %})", R"(t.jinja:1: expected a macro's name, found '%}')"},
      {R"({% macro m %}{% endmacro %})", R"(t.jinja:1: expected '(', found '%}')"},
      {R"({% macro m(a=1, b) %}{% endmacro %})",
       R"(t.jinja:1: a parameter without a default follows one with a default)"},
      {R"({% call 5 %}{% endcall %})", R"(t.jinja:1: {% call %} needs a call: {% call name() %})"},
      {R"({% break %})", R"(t.jinja:1: {% break %} outside of a loop)"},
      {R"({% with a %}{% endwith %})", R"(t.jinja:1: expected '=', found '%}')"},
      {R"({% filter %}{% endfilter %})", R"(t.jinja:1: expected a filter's name, found '%}')"},
      {R"({% generation %})", R"(t.jinja:1: expected {% endgeneration %}, found the end of the template)"},
  };
  expect_messages(cases);
}

}  // namespace
}  // namespace duoka::data::testing
