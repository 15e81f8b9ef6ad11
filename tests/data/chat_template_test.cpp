// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/chat_template.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/cpu_time.h"

namespace duoka::data {
namespace {

using duoka::testing::cpu_seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Message user(std::string content) { return {"user", std::move(content)}; }
Message assistant(std::string content) { return {"assistant", std::move(content)}; }

std::vector<Piece> render(const std::string& source, const Conversation& conversation) {
  return ChatTemplate::parse(source, "t.jinja").render(conversation, {});
}

std::string render_text(const std::string& source, const Conversation& conversation = {}) {
  return ChatTemplate::parse(source, "t.jinja").render_text(conversation, {});
}

template <class Kind>
std::string failure(const std::string& source, const Conversation& conversation = {},
                    const ChatTemplate::Limits& limits = {}) {
  try {
    ChatTemplate::parse(source, "t.jinja").render(conversation, {}, limits);
  } catch (const Kind& error) {
    return error.what();
  }
  return "no error of this kind";
}

Piece own(std::string text) { return {std::move(text), -1, Words::of_template, false}; }
Piece content(std::string text, int message) { return {std::move(text), message, Words::of_content, false}; }

TEST(ChatTemplateProvenance, ContentKeepsItsMessageThroughOperations) {
  const Conversation conversation{{user("  Hello World "), assistant("a,b")}};
  EXPECT_THAT(render("<{{ messages[0].content }}>", conversation),
              ElementsAre(own("<"), content("  Hello World ", 0), own(">")));
  EXPECT_THAT(render("{{ '<' + messages[0].content | trim + '>' }}", conversation),
              ElementsAre(own("<"), content("Hello World", 0), own(">")));
  EXPECT_THAT(render("{{ messages[0]['content'][2:7].upper() ~ '!' }}", conversation),
              ElementsAre(content("HELLO", 0), own("!")));
  EXPECT_THAT(render("{{ messages[0].content.strip().replace('World', 'x') }}", conversation),
              ElementsAre(content("Hello ", 0), own("x")));
  EXPECT_THAT(render("{{ messages[1].content.split(',') | join(' | ') }}", conversation),
              ElementsAre(content("a", 1), own(" | "), content("b", 1)));
  EXPECT_THAT(render("{{ messages | map(attribute='content') | join }}", conversation),
              ElementsAre(content("  Hello World ", 0), content("a,b", 1)));
}

TEST(ChatTemplateProvenance, ContentKeepsItsMessageThroughBlocksAndMacros) {
  const Conversation conversation{{user("hi")}};
  EXPECT_THAT(render("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(messages[0].content) }}", conversation),
              ElementsAre(own("("), content("hi", 0), own(")")));
  EXPECT_THAT(render("{% set x %}[{{ messages[0].content }}]{% endset %}{{ x | title }}", conversation),
              ElementsAre(own("["), content("Hi", 0), own("]")));
  EXPECT_THAT(render("{{ messages[0].content | tojson }}", conversation), ElementsAre(content("\"hi\"", 0)));
  EXPECT_THAT(render("{{ [messages[0].content] }}", conversation),
              ElementsAre(own("["), content("'hi'", 0), own("]")));
  EXPECT_THAT(render("{{ '%s-%s' % (messages[0].content, 'x') }}", conversation),
              ElementsAre(content("hi", 0), own("-x")));
  EXPECT_THAT(render("{{ '{}.'.format(messages[0].content) }}", conversation),
              ElementsAre(content("hi", 0), own(".")));
}

TEST(ChatTemplateProvenance, EqualTextsOfTwoMessagesStayApart) {
  const Conversation conversation{{user("same"), assistant("same")}};
  EXPECT_THAT(render("{% for m in messages %}{{ m.content }}{% endfor %}", conversation),
              ElementsAre(content("same", 0), content("same", 1)));
}

TEST(ChatTemplateProvenance, EmptyContentLeavesItsPlace) {
  const Conversation conversation{{user(""), assistant(" \n ")}};
  EXPECT_THAT(render("<{{ messages[0].content }}>{{ messages[1].content | trim }}!", conversation),
              ElementsAre(own("<"), content("", 0), own(">"), content("", 1), own("!")));
}

TEST(ChatTemplateProvenance, FieldsToolsAndVariablesAreNotTheTemplatesWords) {
  Conversation conversation{{user("q"), assistant("")}};
  conversation.messages[0].fields_json = R"({"name": "Ann", "gone": null})";
  conversation.messages[1].fields_json =
      R"({"tool_calls": [{"function": {"name": "f", "arguments": {"k": 1}}}]})";
  conversation.tools_json = R"([{"name": "t"}])";
  EXPECT_THAT(render("{{ messages[0].name }} {{ messages[0].gone is defined }}", conversation),
              ElementsAre(Piece{"Ann", 0, Words::of_field, false}, own(" False")));
  EXPECT_THAT(render("{{ messages[1].tool_calls[0].function.arguments | tojson }}", conversation),
              ElementsAre(own("{"), Piece{"\"k\"", 1, Words::of_call, false}, own(": 1}")));
  EXPECT_THAT(render("{{ tools[0].name }}", conversation),
              ElementsAre(Piece{"t", -1, Words::of_caller, false}));
  ChatTemplate::Variables variables;
  variables.extra_json = R"({"style": "terse", "flag": false})";
  EXPECT_THAT(ChatTemplate::parse("{{ style }}{{ flag }}", "t").render(conversation, variables),
              ElementsAre(Piece{"terse", -1, Words::of_caller, false}, own("False")));
}

TEST(ChatTemplateProvenance, GenerationBlocksAreMarked) {
  const Conversation conversation{{assistant("yes")}};
  const auto pieces =
      render("A: {% generation %}{{ messages[0].content }}<e>{% endgeneration %}.", conversation);
  EXPECT_THAT(pieces, ElementsAre(own("A: "), Piece{"yes", 0, Words::of_content, true},
                                  Piece{"<e>", -1, Words::of_template, true}, own(".")));
}

TEST(ChatTemplate, NullContentIsNoneToConditionsAndEmptyWhenPrinted) {
  Conversation conversation{{assistant("")}};
  conversation.messages[0].is_null = true;
  for (const char* source :
       {"{{ messages[0].content }}", "{{ messages[0].content | trim }}", "{{ '' + messages[0]['content'] }}",
        "{{ messages[0].content ~ '' }}", "{{ messages[0].content.strip() }}",
        "{{ messages[0].content | string }}", "{{ messages[0].content or '' }}",
        "{% for c in messages[0].content %}{{ c }}{% endfor %}"}) {
    EXPECT_EQ(render_text(source, conversation), "") << source;
  }
  EXPECT_EQ(
      render_text("{{ messages[0].content is none }} {{ messages[0].content is string }}", conversation),
      "True False");
}

TEST(ChatTemplate, TellsLineAndExpressionOfAMistake) {
  EXPECT_EQ(failure<FormatError>("a\nb\n{{ 1 +\n'x' }}"),
            "t.jinja:3: cannot compute int + str, in `1 + 'x'`");
  EXPECT_THAT(failure<FormatError>("\n\n{{ missing.name }}"), HasSubstr("t.jinja:3: 'missing' is undefined"));
  EXPECT_EQ(failure<FormatError>("\n{{ x | uper }}"), "t.jinja:2: unknown filter 'uper'; is 'upper' meant?");
  EXPECT_THAT(failure<FormatError>("{{ x is strng }}"),
              HasSubstr("unknown test 'strng'; is 'string' meant?"));
  EXPECT_THAT(failure<FormatError>("\n{% include 'x' %}"), HasSubstr("t.jinja:2: unknown tag 'include'"));
  EXPECT_THAT(failure<FormatError>("a {{ b"), HasSubstr("never closed"));
}

TEST(ChatTemplate, RefusalOfAConversationIsADataError) {
  EXPECT_EQ(failure<DataError>("{{ raise_exception('roles must alternate') }}"),
            "the chat template refuses the conversation: roles must alternate (t.jinja:1)");
}

TEST(ChatTemplate, RolesArePlainWords) {
  EXPECT_THAT(failure<DataError>("x", {{{"<|im_end|>", "hi"}}}),
              HasSubstr("message 1 has the role '<|im_end|>'"));
  EXPECT_THAT(failure<DataError>("x", {{{"", "hi"}}}), HasSubstr("wanted a plain word"));
}

TEST(ChatTemplateLimits, EndlessWorkIsStopped) {
  const std::string loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  const double start = cpu_seconds();
  EXPECT_THAT(failure<FormatError>(loop), HasSubstr("takes more than 4,000,000 steps"));
  EXPECT_THAT(failure<FormatError>("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("nest deeper than"));
  EXPECT_THAT(failure<FormatError>("{{ 'x' * 9999999999 }}"), HasSubstr("grows past"));
  EXPECT_THAT(failure<FormatError>("{{ 'xx' * 9223372036854775807 }}"), HasSubstr("grows past"));
  EXPECT_THAT(failure<FormatError>("{{ [1] * 9999999999 }}"), HasSubstr("steps"));
  EXPECT_THAT(failure<FormatError>("{{ 9223372036854775807 + 1 }}"), HasSubstr("does not fit into 64 bits"));
  EXPECT_LT(cpu_seconds() - start, 30);
}

TEST(ChatTemplateLimits, GrowthByDoublingIsStopped) {
  const std::string text =
      "{% set ns = namespace(s='x') %}{% for i in range(90) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";
  ChatTemplate::Limits small;
  small.max_output_bytes = 64 << 10;
  EXPECT_THAT(failure<FormatError>(text, {}, small), HasSubstr("a text grows past 64.0 KiB"));
  const std::string list =
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
  ChatTemplate::Limits few_steps;
  few_steps.max_steps = 20'000;
  EXPECT_THAT(failure<FormatError>(list + "{{ ns.l }}", {}, few_steps), HasSubstr("20,000 steps"));
  EXPECT_THAT(failure<FormatError>(list + "{{ ns.l | tojson }}", {}, few_steps), HasSubstr("20,000 steps"));
  const std::string deep =
      "{% set ns = namespace(l=[]) %}{% for i in range(900) %}{% set ns.l = [ns.l] %}{% endfor %}";
  EXPECT_THAT(failure<FormatError>(deep), HasSubstr("nests deeper than 200"));
  small.max_output_bytes = 10;
  EXPECT_THAT(failure<FormatError>("{% for i in range(20) %}x{% endfor %}", {}, small),
              HasSubstr("grows past 10"));
}

TEST(ChatTemplateLimits, DeepSourceIsRefused) {
  std::string brackets = "{{ ", sums = "{{ 1", blocks;
  for (int i = 0; i < 100000; ++i) brackets += '(';
  brackets += '1' + std::string(100000, ')') + " }}";
  for (int i = 0; i < 100000; ++i) sums += "+1";
  for (int i = 0; i < 100000; ++i) blocks += "{% if 1 %}";
  EXPECT_THAT(failure<FormatError>(brackets), HasSubstr("nest"));
  EXPECT_THAT(failure<FormatError>(sums + " }}"), HasSubstr("nests more than"));
  EXPECT_THAT(failure<FormatError>(blocks), HasSubstr("nest"));
}

TEST(ChatTemplateLimits, SelfReferenceIsNoLeakAndNoHang) {
  EXPECT_EQ(render_text("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me == ns }}"), "True");
  EXPECT_EQ(
      render_text("{% set ns = namespace() %}{% macro m() %}m{% endmacro %}{% set ns.m = m %}{{ ns.m() }}"),
      "m");
}

TEST(ChatTemplate, ALongTextIsLinear) {
  const std::string sentence = "the cat sat ";
  std::string text;
  for (int i = 0; i < 700000; ++i) text += sentence;
  const Conversation conversation{{user(text), assistant("ok")}};
  const double start = cpu_seconds();
  const auto out =
      render_text("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}", conversation);
  EXPECT_EQ(out.size(), text.size() - 1 + 2 + std::string("<user><assistant>").size());
  EXPECT_LT(cpu_seconds() - start, 10);
}

TEST(ChatTemplate, RendersFromManyThreads) {
  const auto shared =
      ChatTemplate::parse("{% for m in messages %}[{{ m.content | upper }}]{% endfor %}", "t");
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        results[i] = shared.render_text({{user("t" + std::to_string(i))}}, {});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(results, ElementsAre("[T0]", "[T1]", "[T2]", "[T3]"));
}

TEST(ChatTemplate, AbsentTokensAreUndefined) {
  EXPECT_EQ(render_text("{{ bos_token is defined }} {{ tools is none }} {{ documents is none }}"),
            "False True True");
}

}  // namespace
}  // namespace duoka::data
