// SPDX-License-Identifier: Apache-2.0
// Every test behind `is`.
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

TEST(JinjaTests, DefinedAndNone) {
  static constexpr Recorded cases[] = {
      {R"({{ messages is defined }} {{ missing is defined }} {{ missing is undefined }} {{ none is defined }} {{ nested.nope is defined }} {{ nested.a is defined }} {{ messages[0].tool_calls is defined }} {{ messages[9] is defined }} {{ none is none }} {{ 0 is none }} {{ missing is none }} {{ '' is none }} {{ nothing is none }} {{ nothing is not none }} {{ missing is not defined }} {{ not missing is defined }} {{ tools is none }} {{ documents is none }} {{ bos_token is defined }} {{ loop is defined }} {{ range is defined }})",
       R"(True False True True False True False False True False False False True False True True True True False False True)"},
      {R"({{ missing.x is defined }})", raises},
      {R"({{ nested.nope.x is defined }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaTests, Types) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a' is string }} {{ 1 is string }} {{ [] is string }} {{ none is string }} {{ missing is string }} {{ messages[0].content is string }} {{ 'a' | list is string }} {{ ('a' ~ 1) is string }})",
       R"(True False False False False True False True)"},
      {R"({{ {} is mapping }} {{ [] is mapping }} {{ nested is mapping }} {{ messages[0] is mapping }} {{ missing is mapping }} {{ namespace() is mapping }} {{ dict() is mapping }})",
       R"(True False True True False False True)"},
      {R"({{ [] is iterable }} {{ 'a' is iterable }} {{ {} is iterable }} {{ 1 is iterable }} {{ none is iterable }} {{ missing is iterable }} {{ range(1) is iterable }} {{ () is iterable }} {{ ([1] | select) is iterable }} {{ {}.items() is iterable }})",
       R"(True True True False False True True True True True)"},
      {R"({{ [] is sequence }} {{ 'a' is sequence }} {{ {} is sequence }} {{ () is sequence }} {{ 1 is sequence }} {{ none is sequence }} {{ missing is sequence }} {{ ([1] | select) is sequence }} {{ range(2) is sequence }} {{ {}.keys() is sequence }})",
       R"(True True True True False False True False True False)"},
      {R"({{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ '1' is number }} {{ none is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ big is integer }} {{ half is float }})",
       R"(True True True False False True False False True False True True)"},
      {R"({{ true is boolean }} {{ 1 is boolean }} {{ none is boolean }} {{ yes is boolean }} {{ true is true }} {{ 1 is true }} {{ 'a' is true }} {{ false is false }} {{ 0 is false }} {{ none is false }} {{ (1 == 1) is true }})",
       R"(True False False True True False False True False False True)"},
      {R"({{ range is callable }} {{ 'a'.upper is callable }} {{ 'a' is callable }} {{ namespace is callable }} {{ none is callable }} {{ raise_exception is callable }} {{ dict is callable }})",
       R"(True True False True False True True)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaTests, Numbers) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 is odd }} {{ 2 is odd }} {{ 0 is even }} {{ -1 is odd }} {{ -3 is odd }} {{ -2 is even }} {{ true is odd }} {{ 6 is divisibleby 3 }} {{ 7 is divisibleby(3) }} {{ -6 is divisibleby 4 }} {{ 0 is divisibleby 5 }} {{ 2.0 is even }} {{ 1.5 is odd }} {{ 7.5 is divisibleby 2.5 }})",
       R"(True False True True True True True True False False True True False True)"},
      {R"({{ 1 is divisibleby 0 }})", raises},
      {R"({{ 'a' is odd }})", raises},
      {R"({{ none is even }})", raises},
      {R"({{ missing is odd }})", raises},
      {R"({{ 1 is divisibleby }})", raises},
      {R"({{ 1.0 is odd }} {{ -2.0 is even }} {{ 7.5 is divisibleby 2.5 }} {{ 9 is divisibleby -1 }} {{ -9 is divisibleby 3 }})",
       raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaTests, Comparisons) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 is eq 1 }} {{ 1 is equalto 1.0 }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 2 is greaterthan(3) }} {{ 2 is ge 2 }} {{ 1 is lt 2 }} {{ 1 is lessthan(1) }} {{ 1 is le 1 }} {{ 'a' is eq 'a' }} {{ [1] is eq [1] }} {{ none is eq none }} {{ 'a' is lt 'b' }} {{ 1 is eq(2) or true }})",
       R"(True True True True False True True False True True True True True True)"},
      {R"({{ 1 is in [1, 2] }} {{ 'a' is in 'cat' }} {{ 'a' is not in 'dog' }} {{ 'role' is in messages[0] }} {{ 1 is in {1: 2} }} {{ none is in [none] }} {{ 5 is in range(3) }} {{ 'x' is in missing }})",
       R"(True True True True True True False False)"},
      {R"({{ 1 is sameas 1 }} {{ none is sameas none }} {{ true is sameas true }} {{ 1 is sameas true }} {{ 'a' is sameas 'b' }} {{ true is sameas 1 }} {{ none is sameas false }} {{ nested is sameas nested }} {{ [] is sameas [] }} {{ messages is sameas messages }})",
       R"(True True True False False False False True False True)"},
      {R"({{ 1 is gt 'a' }})", raises},
      {R"({{ 1 is in 5 }})", raises},
      {R"({{ 1 is eq }})", raises},
      {R"({{ 1 is sameas }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaTests, Case) {
  static constexpr Recorded cases[] = {
      {R"({{ 'abc' is lower }} {{ 'aBc' is lower }} {{ 'ABC' is upper }} {{ 'AB1' is upper }} {{ '' is lower }} {{ '1' is upper }} {{ 'é' is lower }} {{ '你' is lower }} {{ 5 is lower }} {{ none is upper }} {{ true is lower }})",
       R"(True False True True False False True False False False False)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaTests, FilterTestEscaped) {
  static constexpr Recorded cases[] = {
      {R"({{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }} {{ 'in' is test }} {{ '==' is test }} {{ 'tojson' is filter }} {{ 5 is filter }})",
       R"(True False True False True True True False)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaTests, HowTestsRead) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 is not odd }} {{ not 1 is odd }} {{ 1 is odd and 2 is even }} {{ 'a' is string and 'b' }} {{ 1 + 1 is odd }} {{ (1 + 1) is even }} {{ 2 is even if 1 else 0 }} {{ [1 is odd, 2 is odd] }} {{ -1 is number }} {{ 'a' ~ 1 is string }} {{ 1 is divisibleby 1 and true }} {{ 'a' | upper is upper }} {{ 'a' is in ['a'] and 'b' not in ['a'] }} {{ 4 is divisibleby 2 ~ '!' }} {{ messages[0].role is eq 'user' }} {{ 3 is eq 3 == true }} {{ 1 is number is defined if false else 'n' if false else 'k' }})",
       raises},
      {R"({{ 3 is eq 1 + 2 }})", R"(2)"},
      {R"({{ 1 is odd is even }})", raises},
      {R"({{ 1 is nope }})", raises},
      {R"({{ 1 is }})", raises},
      {R"({{ 1 is not }})", raises},
      {R"({{ 1 is 1 }})", raises},
      {R"({{ 1 is strng }})", raises},
      {R"({% if false %}{{ 1 is nope }}{% endif %}ok)", R"(ok)"},
      {R"({{ 1 is odd(2) }})", raises},
      {R"({{ none is none(1) }})", raises},
  };
  expect_as_recorded(cases);
}

}  // namespace
}  // namespace duoka::data::testing
