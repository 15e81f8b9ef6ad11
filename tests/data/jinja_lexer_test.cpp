// SPDX-License-Identifier: Apache-2.0
// How a source is cut: white space around tags, comments, raw blocks, literals.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/jinja/print.h"
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

/// Texts of pieces that mean something to a lexer, but hold no tag.
class Texts {
 public:
  explicit Texts(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::string next() {
    std::string text;
    for (uint32_t count = random_() % 12; count > 0; --count) text += pieces_[random_() % pieces_.size()];
    return text;
  }

 private:
  std::mt19937 random_{11};
  std::vector<std::string> pieces_;
};

TEST(JinjaLexer, TextWithoutTagsRendersAsItself) {
  Texts texts({"a", " ",  "\n", "\t", "}",  "}}",   "%}", "#}", "{ ", "{x",
               "-", "\"", "'",  "\\", "你", "🦙", "%",  "#",  "é",  "|"});
  for (int round = 0; round < 1000; ++round) {
    const std::string text = texts.next() + ".";
    EXPECT_EQ(render(text), text);
  }
}

TEST(JinjaLexer, RawBlocksRenderAsTheirText) {
  Texts texts({"a", " ", "\n", "}}", "%}", "{{", "{#", "#}", "{", "endraw", "'", "\"", "-", "你", "{{ x }}",
               "{# c #}"});
  for (int round = 0; round < 1000; ++round) {
    // lstrip_blocks takes blanks in front of endraw where they begin a line: the dot keeps them.
    const std::string text = texts.next() + ".";
    EXPECT_EQ(render("{% raw %}" + text + "{% endraw %}"), text);
  }
}

TEST(JinjaLexer, StringLiteralsReadBackAsTheText) {
  Texts texts({"a", "'", "\"", "\\", "\n", "\t", "{{", "}}", "%}", "{#", "\\n", "\\x", "你", "🦙", "\x01",
               "-", "\r"});
  for (int round = 0; round < 1000; ++round) {
    const std::string text = texts.next();
    std::string literal;
    for (const char c : text) {
      const bool is_escaped = c == '\'' || c == '\\';
      // A carriage return in a source is made a newline: only its escape keeps it.
      literal += c == '\r' ? "\\r" : is_escaped ? std::string("\\") + c : std::string(1, c);
    }
    EXPECT_EQ(render("{{ '" + literal + "' }}"), text) << literal;
  }
}

TEST(JinjaLexer, NumbersReadBackAsThemselves) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 1000; ++round) {
    const auto whole = static_cast<int64_t>(random() >> (1 + random() % 63));
    EXPECT_EQ(render("{{ " + std::to_string(whole) + " }}"), std::to_string(whole));
    const double value = static_cast<double>(whole) * std::pow(10.0, static_cast<int>(random() % 600) - 300);
    if (!std::isfinite(value)) continue;
    const std::string text = jinja::float_text(value);
    EXPECT_EQ(render("{{ " + text + " }}"), text);
    EXPECT_EQ(render("{{ '" + text + "' | float }}"), text);
  }
}

}  // namespace
}  // namespace duoka::data::testing
