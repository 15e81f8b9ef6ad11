// SPDX-License-Identifier: Apache-2.0
// How a source is cut: white space around tags, comments, raw blocks, literals.
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

TEST(JinjaLexer, TextWithoutTagsStays) {
  static constexpr Recorded cases[] = {
      {R"(a { b } % # { { c } }
d)",
       R"(a { b } % # { { c } }
d)"},
      {R"({ {x} } {a} {})", R"({ {x} } {a} {})"},
      {R"(

a

)",
       R"(

a
)"},
      {R"( 	tabs	and blanks )", R"( 	tabs	and blanks )"},
      {R"('quotes' "double" \n \\)", R"('quotes' "double" \n \\)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, OneNewlineAtTheEndIsDropped) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 }}
)",
       R"(1)"},
      {R"({{ 1 }}

)",
       R"(1
)"},
      {R"({% if true %}x{% endif %}

)",
       R"(x)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, BlockTagsTakeTheNewlineBehind) {
  static constexpr Recorded cases[] = {
      {R"(a
{% if true %}
b
{% endif %}
c)",
       R"(a
b
c)"},
      {R"(a{% if true %}

b{% endif %} 
c)",
       R"(a
b 
c)"},
      {R"({% set x = 1 %}
{% set y = 2 %}
{{ x }}
{{ y }})",
       R"(1
2)"},
      {R"({# note #}

x)",
       R"(
x)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, VariableTagsLeaveTheNewlineBehind) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 }}
{{ 2 }}

x)",
       R"(1
2

x)"},
      {R"({{ 1 -}}

 x)",
       R"(1x)"},
      {R"({{ 1 }}   
x)",
       R"(1   
x)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, BlocksAndCommentsTakeTheBlanksBeforeThemOnTheirLine) {
  static constexpr Recorded cases[] = {
      {R"(  {% if true %}x{% endif %})", R"(x)"},
      {R"(a
 	 {% if true %}
x)",
       raises},
      {R"(a
 	 {% if true %}
x
  {% endif %}y)",
       R"(a
x
y)"},
      {R"(a  {% if true %}x{% endif %})", R"(a  x)"},
      {R"(a
  {# c #}
b)",
       R"(a
b)"},
      {R"(a
  {{ 1 }}
b)",
       R"(a
  1
b)"},
      {R"({{ 1 }}  {% if true %}x{% endif %})", R"(1  x)"},
      {R"({% if true %}  {% if true %}x{% endif %}{% endif %})", R"(  x)"},
      {R"({% if true %}
  {% if true %}
x
  {% endif %}
{% endif %}
)",
       R"(x
)"},
      {R"({# a #}  {# b #}x)", R"(  x)"},
      {R"(
{#- a -#}
  {# b #}x)",
       R"(x)"},
      {R"({% for i in [1, 2] %}
  {{ i }}
  {% endfor %}
end)",
       R"(  1
  2
end)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, PlusKeepsWhatWouldBeTaken) {
  static constexpr Recorded cases[] = {
      {R"(a
  {%+ if true %}
x{% endif %})",
       R"(a
  x)"},
      {R"({% if true +%}
x{% endif +%}
y)",
       R"(
x
y)"},
      {R"(  {#+ c +#}
x)",
       R"(  
x)"},
      {R"(a
  {{+ 1 }})",
       R"(a
  1)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, MinusTakesAllWhiteSpace) {
  static constexpr Recorded cases[] = {
      {R"(a 
 	 {{- 1 -}} 

 b)",
       R"(a1b)"},
      {R"(a 
 {%- if true -%} 
 b 
 {%- endif -%} 
 c)",
       R"(abc)"},
      {R"(a 
 {#- c -#} 
 b)",
       R"(ab)"},
      {R"(x {%- set a = 1 -%} y {{- a -}} z)", R"(xy1z)"},
      {R"( {{-1}} {{ - 1 }} {{1-}})", R"(1 -1 1)"},
      {R"({{ 3 -1 }}{{ 3 - -1 }}{{ 3--1 }})", R"(244)"},
      {R"(a {{- '' -}} b)", R"(ab)"},
      {R"(a
{%- if true %}
b
{%- endif %}
c)",
       R"(abc)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, CommentsHideEverything) {
  static constexpr Recorded cases[] = {
      {R"(a{# {{ x }} {% if %} #}b)", R"(ab)"},
      {R"(a{##}b{#-#}c)", R"(abc)"},
      {R"(a{# x
y
 #}b)",
       R"(ab)"},
      {R"(a{#- x -#} b{# # } #}c)", R"(abc)"},
      {R"({# {# #} #})", R"( #})"},
      {R"({#}x#}y)", R"(y)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, RawBlocksKeepTags) {
  static constexpr Recorded cases[] = {
      {R"({% raw %}{{ a }}{% if %}{# c #}{% endraw %})", R"({{ a }}{% if %}{# c #})"},
      {R"({%raw%}{{{%endraw%})", R"({{)"},
      {R"({% raw %}  x  {% endraw %})", R"(  x  )"},
      {R"(a {%- raw -%}  x  {%- endraw -%} b)", R"(axb)"},
      {R"({% raw %}
x
{% endraw %}
y)",
       R"(
x
y)"},
      {R"(a
  {% raw %}x{% endraw %}
b)",
       R"(a
xb)"},
      {R"(a
  {% raw %}x
  {% endraw %}
b)",
       R"(a
x
b)"},
      {R"({% raw %}{% endraw %}{% raw %}{% raw %}{% endraw %})", R"({% raw %})"},
      {R"({% raw %}{% endraws %}{% endraw %})", R"({% endraws %})"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, StringLiterals) {
  static constexpr Recorded cases[] = {
      {R"({{ 'a' "b" 'c"d' "e'f" }})", R"(abc"de'f)"},
      {R"({{ '\'' }}{{ "\"" }}{{ '\\' }}{{ '\/' }})", R"('"\\/)"},
      {R"({{ 'a\tb\nc' }})", R"(a	b
c)"},
      {R"({{ '\x41\u00e9\u4f60\U0001f999\101\60' }})", R"(Aé你🦙A0)"},
      {R"({{ 'a
b' }})",
       R"(a
b)"},
      {R"({{ '{{ x }}' }}{{ "%}" }}{{ '#}' }})", R"({{ x }}%}#})"},
      {R"({{ 'é🦙' }}{{ '' }})", R"(é🦙)"},
      {R"({{ 'a\
b' }})",
       R"(ab)"},
      {R"({{ '</s>' + "<|im_end|>\n" }})", R"(</s><|im_end|>
)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, NumberLiterals) {
  static constexpr Recorded cases[] = {
      {R"({{ 0 }} {{ 00 }} {{ 7 }} {{ 1_000_000 }} {{ 9223372036854775807 }})",
       R"(0 0 7 1000000 9223372036854775807)"},
      {R"({{ 1.5 }} {{ 1e3 }} {{ 1E-2 }} {{ 1.5e+2 }} {{ 1_0.2_5 }} {{ 0.10 }} {{ 00.5 }})",
       R"(1.5 1000.0 0.01 150.0 10.25 0.1 0.5)"},
      {R"({{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 0xff_ff }} {{ 0Xab }})", R"(31 5 15 65535 171)"},
      {R"({{ 1e400 }} {{ -1e400 }} {{ 1e-400 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }})",
       R"(inf -inf 0.0 5e-324 1.7976931348623157e+308)"},
      {R"({{ 007 }})", raises},
      {R"({{ 1.e5 }})", R"()"},
      {R"({{ .5 }})", raises},
      {R"({{ 1_ }})", raises},
      {R"({{ 0x }})", raises},
      {R"({{ 12abc }})", raises},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, NamesMayBeUnicode) {
  static constexpr Recorded cases[] = {
      {R"({% set größe = 3 %}{{ größe }}{% set 名 = 'x' %}{{ 名 }}{% set _a1 = 2 %}{{ _a1 }})", R"(3x2)"},
      {R"({{ nested.é }}{{ nested['é'] }})", R"(üü)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, BracesInsideExpressions) {
  static constexpr Recorded cases[] = {
      {R"({{ {'a': {'b': 1}} }}{{ {'a': {}}['a'] }})", R"({'a': {'b': 1}}{})"},
      {R"({{{'a': 1}}})", R"({'a': 1})"},
      {R"({{ {'a': 1}|length }}{{{'a': 1}|length}})", R"(11)"},
      {R"({{ [[1], [2]][0] }}{{ (((1))) }})", R"([1]1)"},
      {R"({{ {1: [2, (3,)]}[1][1][0] }})", R"(3)"},
  };
  expect_as_recorded(cases);
}

TEST(JinjaLexer, BrokenTagsAreErrors) {
  static constexpr Recorded cases[] = {
      {R"({{ 1 })", raises},      {R"({{ 1 %})", raises},       {R"({% if true }}x{% endif %})", raises},
      {R"({{ (1] }})", raises},   {R"({{ 'a }})", raises},      {R"({{ 1 }} }} %} #})", R"(1 }} %} #})"},
      {R"({{ $x }})", raises},    {R"({{ a ? b }})", raises},   {R"({{ `a` }})", raises},
      {R"({{ a & b }})", raises}, {R"({{ a := 1 }})", raises},  {R"({{ 'a'; }})", raises},
      {R"({# open)", raises},     {R"({% raw %}open)", raises}, {R"({%)", raises},
      {R"({{)", raises},          {R"({{ "a\)", raises},
  };
  expect_as_recorded(cases);
}

}  // namespace
}  // namespace duoka::data::testing
