// SPDX-License-Identifier: Apache-2.0
// Where text came from, through everything that can be done to it: what a user typed must never count as the
// template's own words, or a typed control token could become one.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/data/chat_template.h"

namespace duoka::data {
namespace {

using ::testing::ElementsAre;

/// Letters that no template below has: found in a piece, they were typed.
constexpr const char* typed = "QZX QZ\nXQ";

Conversation typed_conversation() {
  Conversation conversation{{{"user", typed}, {"assistant", "QXZ"}}};
  conversation.messages[0].fields_json = R"({"name": "ZQ", "tags": ["XX", {"QK": "ZZ"}]})";
  conversation.messages[1].fields_json =
      R"({"tool_calls": [{"function": {"name": "QF", "arguments": {"ZA": "XV"}}}]})";
  conversation.tools_json = R"([{"name": "XT", "QD": "ZX"}])";
  return conversation;
}

std::vector<Piece> render(const std::string& source, const Conversation& conversation) {
  ChatTemplate::Variables variables;
  variables.extra_json = R"({"style": "ZSQ"})";
  return ChatTemplate::parse(source, "t").render(conversation, variables);
}

bool has_typed_letters(const std::string& text) { return text.find_first_of("QZXqzx") != std::string::npos; }

const char* const operations[] = {
    "{{ c }}",
    "{{ c ~ '-' }}",
    "{{ '-' + c }}",
    "{{ c + c }}",
    "{{ c * 3 }}",
    "{{ c[1:] }}",
    "{{ c[::-1] }}",
    "{{ c[0] }}",
    "{{ c[-2:] }}",
    "{{ c[::2] }}",
    "{{ c | trim }}",
    "{{ c | upper }}",
    "{{ c | lower }}",
    "{{ c | title }}",
    "{{ c | capitalize }}",
    "{{ c | replace('Z', '-') }}",
    "{{ c | replace('-', 'a') }}",
    "{{ '-a-' | replace('a', c) }}",
    "{{ c | indent(2) }}",
    "{{ c | indent(2, true) }}",
    "{{ '-\n-' | indent(c) }}",
    "{{ c | string }}",
    "{{ c | safe }}",
    "{{ c | escape }}",
    "{{ c | list }}",
    "{{ c | list | join('-') }}",
    "{{ ['a', 'b'] | join(c) }}",
    "{{ c | first }}",
    "{{ c | last }}",
    "{{ c | reverse }}",
    "{{ c | default('d') }}",
    "{{ missing | default(c) }}",
    "{{ c | tojson }}",
    "{{ [c] | tojson(indent=2) }}",
    "{{ {c: c} | tojson }}",
    "{{ {'a': c} }}",
    "{{ {c: 1} }}",
    "{{ [c, [c]] }}",
    "{{ (c, 1) | string }}",
    "{{ '%s' % c }}",
    "{{ '%r' % c }}",
    "{{ '%.2s' % c }}",
    "{{ c | replace('Q', '%s') }}",
    "{{ (c ~ '%s') % 'a' }}",
    "{{ '{} {}'.format(c, 1) }}",
    "{{ (c ~ '{}').format(1) }}",
    "{{ '%s-%s' | format(c, c) }}",
    "{{ c.strip() }}",
    "{{ c.strip('Q') }}",
    "{{ c.upper() }}",
    "{{ c.title() }}",
    "{{ c.split() }}",
    "{{ c.split('Z') }}",
    "{{ c.rsplit('Z', 1)[0] }}",
    "{{ c.splitlines() }}",
    "{{ c.splitlines(true) | join }}",
    "{{ c.partition('Z') }}",
    "{{ c.rpartition(' ')[0] }}",
    "{{ '-'.join([c, c]) }}",
    "{{ c.join('ab') }}",
    "{{ c.replace('Q', 'a') }}",
    "{{ 'abc'.replace('b', c) }}",
    "{{ c.removeprefix('Q') }}",
    "{{ c.removesuffix('Q') }}",
    "{{ c.ljust(20, '.') }}",
    "{{ c.center(20) }}",
    "{{ c.zfill(20) }}",
    "{{ 'a'.ljust(4, c[0]) }}",
    "{{ c if true }}",
    "{{ c or 'a' }}",
    "{{ '' or c }}",
    "{{ c and c }}",
    "{{ [c] | map('upper') | join }}",
    "{{ messages | map(attribute='content') | join('-') }}",
    "{{ [c, 'a'] | sort | join }}",
    "{{ [c] | first }}",
    "{{ [c, c] | unique | join }}",
    "{{ [c, 'a'] | max }}",
    "{{ c | batch(2) | list }}",
    "{{ dict(a=c).a }}",
    "{{ {'a': c}.get('a') }}",
    "{{ {'a': c}.values() | list }}",
    "{{ {c: 1}.items() | list }}",
    "{{ {c: 1} | dictsort }}",
    "{{ [c] + ['a'] }}",
    "{{ namespace(a=c).a }}",
    "{{ messages[0].name }}",
    "{{ messages[0].tags }}",
    "{{ messages[0].tags | tojson }}",
    "{{ messages[0] | tojson }}",
    "{{ messages }}",
    "{{ messages[1].tool_calls | tojson(indent=4) }}",
    "{{ messages[1].tool_calls[0].function.name }}",
    "{{ messages[1].tool_calls[0].function.arguments }}",
    "{{ tools | tojson }}",
    "{{ tools[0].items() | list }}",
    "{{ style }}",
    "{% for x in c %}{{ x }}-{% endfor %}",
    "{% set d = c ~ 'a' %}{{ d }}",
    "{% set d %}a{{ c }}{% endset %}{{ d }}",
    "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(c) }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ c }}{% endcall %}",
    "{% filter upper %}a{{ c }}{% endfilter %}",
    "{% filter replace('a', c) %}aba{% endfilter %}",
    "{% with d = c %}{{ d }}{% endwith %}",
    "{% set ns = namespace() %}{% set ns.a = c %}{{ ns.a }}",
    "{% for k in {c: 1} %}{{ k }}{% endfor %}",
    "{% for k, v in tools[0] | items %}{{ k }}{{ v }}{% endfor %}",
    "{% generation %}{{ c }}{% endgeneration %}",
    "{% for x in [c] %}{{ loop.cycle(x, 'a') }}{% endfor %}",
};

TEST(JinjaProvenance, TypedTextIsNeverTheTemplatesOwn) {
  const Conversation conversation = typed_conversation();
  for (const std::string operation : operations) {
    const std::string source = "{% set c = messages[0].content %}[" + operation + "]";
    bool is_found = false;
    for (const Piece& piece : render(source, conversation)) {
      if (!has_typed_letters(piece.text)) continue;
      is_found = true;
      EXPECT_NE(piece.words, Words::of_template) << operation << " gives as its own: " << piece.text;
      const bool is_of_message = piece.words != Words::of_caller;
      EXPECT_EQ(is_of_message, piece.message >= 0) << operation;
    }
    EXPECT_TRUE(is_found) << operation << " lost what was typed";
  }
}

/// The other way round: a mark on the template's own words would keep its control tokens from being control.
TEST(JinjaProvenance, TheTemplatesOwnBracketsStayItsOwn) {
  const Conversation conversation = typed_conversation();
  for (const std::string operation : operations) {
    const auto pieces = render("{% set c = messages[0].content %}<|a|>" + operation + "<|b|>", conversation);
    ASSERT_FALSE(pieces.empty());
    EXPECT_EQ(pieces.front().words, Words::of_template) << operation;
    EXPECT_TRUE(pieces.front().text.starts_with("<|a|>")) << operation;
    EXPECT_EQ(pieces.back().words, Words::of_template) << operation;
    EXPECT_TRUE(pieces.back().text.ends_with("<|b|>")) << operation;
  }
}

TEST(JinjaProvenance, JoinedPiecesAreTheTextAndNeighboursDiffer) {
  const Conversation conversation = typed_conversation();
  for (const std::string operation : operations) {
    const std::string source = "{% set c = messages[0].content %}[" + operation + "]";
    const auto pieces = render(source, conversation);
    std::string joined;
    for (const Piece& piece : pieces) joined += piece.text;
    ChatTemplate::Variables variables;
    variables.extra_json = R"({"style": "ZSQ"})";
    EXPECT_EQ(joined, ChatTemplate::parse(source, "t").render_text(conversation, variables)) << operation;
    for (size_t i = 1; i < pieces.size(); ++i) {
      const Piece &a = pieces[i - 1], &b = pieces[i];
      const bool is_same = a.message == b.message && a.words == b.words && a.is_generation == b.is_generation;
      EXPECT_FALSE(is_same && !a.text.empty() && !b.text.empty())
          << operation << ": " << a.text << " | " << b.text;
    }
  }
}

TEST(JinjaProvenance, EachKindOfFieldIsToldApart) {
  const Conversation conversation = typed_conversation();
  const auto only = [&](const std::string& source) {
    const auto pieces = render(source, conversation);
    EXPECT_EQ(pieces.size(), 1u) << source;
    return pieces.empty() ? Piece{} : pieces.front();
  };
  EXPECT_EQ(only("{{ messages[0].content }}"), (Piece{typed, 0, Words::of_content, false}));
  EXPECT_EQ(only("{{ messages[1].content }}"), (Piece{"QXZ", 1, Words::of_content, false}));
  EXPECT_EQ(only("{{ messages[0].name }}"), (Piece{"ZQ", 0, Words::of_field, false}));
  EXPECT_EQ(only("{{ messages[0].tags[1].QK }}"), (Piece{"ZZ", 0, Words::of_field, false}));
  EXPECT_EQ(only("{{ messages[1].tool_calls[0].function.name }}"), (Piece{"QF", 1, Words::of_call, false}));
  EXPECT_EQ(only("{{ tools[0].QD }}"), (Piece{"ZX", -1, Words::of_caller, false}));
  EXPECT_EQ(only("{{ style }}"), (Piece{"ZSQ", -1, Words::of_caller, false}));
  EXPECT_EQ(only("own"), (Piece{"own", -1, Words::of_template, false}));
}

TEST(JinjaProvenance, PaddingAndCuttingAtTheBorder) {
  const Conversation conversation{{{"user", "ab"}, {"assistant", "cd"}}};
  const auto content = [](std::string text, int message) {
    return Piece{std::move(text), message, Words::of_content, false};
  };
  EXPECT_THAT(render("{{ (messages[0].content ~ messages[1].content)[1:3] }}", conversation),
              ElementsAre(content("b", 0), content("c", 1)));
  EXPECT_THAT(render("{{ (messages[0].content ~ messages[1].content)[::-1] }}", conversation),
              ElementsAre(content("dc", 1), content("ba", 0)));
  EXPECT_THAT(render("{{ messages[0].content.ljust(4, '.') }}", conversation),
              ElementsAre(content("ab", 0), Piece{"..", -1, Words::of_template, false}));
  EXPECT_THAT(
      render("{{ (messages[0].content ~ '|' ~ messages[1].content).partition('|')[2] }}", conversation),
      ElementsAre(content("cd", 1)));
}

}  // namespace
}  // namespace duoka::data
