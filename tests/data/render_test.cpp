// SPDX-License-Identifier: Apache-2.0
// Ids and labels of conversations: cases A04, B01, B03, B07 and the seven reference rows.
#include "duoka/data/render.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/data/tokenizer.h"
#include "duoka/io/json.h"

namespace duoka::data {
namespace {

using io::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ids = std::vector<int32_t>;

std::filesystem::path cases() {
  const char* fixtures = std::getenv("DUOKA_FIXTURES");
  return std::filesystem::path(fixtures ? fixtures : "") / "cases";
}

Json expected(const char* name) { return io::read_json_file(cases() / name); }

/// A message as OpenAI's form has it: text, parts or null, and whatever else.
Message message_of(Json json) {
  Message message{json["role"], ""};
  const Json content = json["content"];
  if (content.is_string()) message.content = content;
  if (content.is_array()) {
    for (const Json& part : content) message.content += part["text"].get<std::string>();
  }
  message.is_null = content.is_null();
  json.erase("role");
  json.erase("content");
  if (!json.empty()) message.fields_json = json.dump();
  return message;
}

std::vector<Conversation> rows(const char* name) {
  std::ifstream in(cases() / name);
  std::vector<Conversation> all;
  for (std::string line; std::getline(in, line);) {
    Conversation row;
    const Json json = io::parse_json(line, name);
    for (const Json& message : json["messages"]) row.messages.push_back(message_of(message));
    all.push_back(row);
  }
  return all;
}

class RenderRow : public ::testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::from_folder(cases() / "models" / "tiny-llama");
  const ChatTemplate template_ = ChatTemplate::parse(tokenizer_.chat_template().value_or(""), "tiny-llama");

  EncodedRow render(const Conversation& row, const RenderOptions& options = {}) const {
    return render_row(row, template_, tokenizer_, options);
  }
  EncodedRow render_with(const std::string& source, const Conversation& row,
                         const RenderOptions& options = {}) const {
    return render_row(row, ChatTemplate::parse(source, "test"), tokenizer_, options);
  }
  std::string trained_text(const EncodedRow& row) const {
    Ids ids;
    std::copy_if(row.labels.begin(), row.labels.end(), std::back_inserter(ids),
                 [](int32_t id) { return id >= 0; });
    return tokenizer_.decode(ids);
  }
};

TEST_F(RenderRow, SevenReferenceRows) {
  const Json file = expected("rows7_expected.json");
  const auto all = rows("rows7.jsonl");
  ASSERT_EQ(all.size(), 7u);
  for (size_t i = 0; i < all.size(); ++i) {
    const EncodedRow row = render(all[i]);
    EXPECT_EQ(row.ids, file["rows"][i]["ids"].get<Ids>()) << "row " << i + 1;
    EXPECT_EQ(row.labels, file["rows"][i]["labels"].get<Ids>()) << "row " << i + 1;
    EXPECT_THAT(row.warnings, IsEmpty());
  }
}

TEST_F(RenderRow, B01OneBosInRowPromptAndTypedText) {
  const Json file = expected("B01_expected.json");
  Conversation conversation = rows("B01_row.jsonl").at(0);
  EXPECT_EQ(render(conversation).ids, file["ids"].get<Ids>());
  Conversation typed = conversation;
  conversation.messages.pop_back();
  EXPECT_EQ(render_prompt(conversation, template_, tokenizer_), file["generation_prompt_ids"].get<Ids>());

  typed.messages[0].content = "<|bos|>the cat";
  const EncodedRow row = render(typed);
  EXPECT_EQ(std::count(row.ids.begin(), row.ids.end(), 0), 1);
  ASSERT_EQ(row.warnings.size(), 1u);
  EXPECT_THAT(row.warnings[0], HasSubstr("message 1 begins with <|bos|>"));
}

TEST_F(RenderRow, B01ATemplateWithoutBosGetsNone) {
  const EncodedRow row = render_with("{{ messages[0].content }}", {{{"user", "the cat"}}});
  EXPECT_EQ(row.ids, (Ids{308, 282, 267}));
}

TEST_F(RenderRow, B07AnswersWithTheirBlanksAreTrained) {
  const Json file = expected("B07_expected.json");
  const Conversation conversation = rows("B07_multiturn.jsonl").at(0);
  const EncodedRow row = render(conversation);
  EXPECT_EQ(row.ids, file["ids"].get<Ids>());
  EXPECT_EQ(row.labels, file["labels"].get<Ids>());
  EXPECT_EQ(trained_text(row), " sat<|im_end|>\nran\n<|im_end|>");
  EXPECT_EQ(trained_text(render(conversation, {.mask_history = true})), "\nran\n<|im_end|>");
  EXPECT_EQ(render(conversation, {.train_on_prompt = true}).labels, row.ids);
}

TEST_F(RenderRow, TurnsNotToBeTrainedAreMasked) {
  Conversation conversation = rows("B07_multiturn.jsonl").at(0);
  conversation.messages[2].is_trained = false;
  EXPECT_EQ(trained_text(render(conversation)), "\nran\n<|im_end|>");
  const EncodedRow all = render(conversation, {.train_on_prompt = true});
  EXPECT_EQ(std::count(all.labels.begin(), all.labels.end(), -100), 3);
  EXPECT_THROW(render(conversation, {.train_on_prompt = true, .mask_history = true}), ConfigError);
}

TEST_F(RenderRow, TheSpanIsTheAnswersAndNotAnEqualTextElsewhere) {
  const EncodedRow row = render({{{"user", "sat"}, {"assistant", "sat"}}});
  const auto first = std::find_if(row.labels.begin(), row.labels.end(), [](int32_t id) { return id >= 0; });
  EXPECT_EQ(row.labels.end() - first, 3);
  EXPECT_EQ(trained_text(row), "sat<|im_end|>");
}

TEST_F(RenderRow, A04NullContentAndParts) {
  const Json file = expected("A04_expected.json");
  const auto all = rows("A04_tool_calls_null.jsonl");
  const EncodedRow calls = render(all.at(0));
  EXPECT_EQ(calls.ids, file["row1_ids"].get<Ids>());
  ASSERT_EQ(calls.warnings.size(), 1u);
  EXPECT_THAT(calls.warnings[0], HasSubstr("does not render tool_calls: those of message 2"));
  EXPECT_EQ(trained_text(calls), "<|im_end|>the number is 17<|im_end|>");
  EXPECT_EQ(trained_text(render(all.at(1))), "the cat<|im_end|>");
  EXPECT_EQ(trained_text(render(all.at(2))), "<|im_end|>");
}

TEST_F(RenderRow, TypedControlTokensAreText) {
  const EncodedRow row =
      render({{{"user", "<|im_end|><|im_start|>assistant\nok"}, {"assistant", "<|im_end|>no"}}});
  EXPECT_EQ(std::count(row.ids.begin(), row.ids.end(), 4), 2);
  EXPECT_EQ(std::count(row.ids.begin(), row.ids.end(), 3), 2);
  EXPECT_EQ(trained_text(row), "<|im_end|>no<|im_end|>");
}

TEST_F(RenderRow, GenerationMarksDecide) {
  const std::string source =
      "{% for m in messages %}{{ m.role }}:"
      "{% if m.role == 'assistant' %}{% generation %} {{ m.content }}<|eos|>{% endgeneration %}"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}";
  Conversation conversation{{{"user", "a"}, {"assistant", "sat"}, {"user", "b"}, {"assistant", "ok"}}};
  EXPECT_EQ(trained_text(render_with(source, conversation)), " sat<|eos|> ok<|eos|>");
  EXPECT_EQ(trained_text(render_with(source, conversation, {.mask_history = true})), " ok<|eos|>");
  conversation.messages[3].is_trained = false;
  EXPECT_EQ(trained_text(render_with(source, conversation)), " sat<|eos|>");
}

TEST_F(RenderRow, ToolCallsAreTrainedFromWhereThePromptEnds) {
  const std::string source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
      "{% for c in m.tool_calls or [] %}[call]{{ c.function.name }}[/call]{% endfor %}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  Conversation conversation{{{"user", "hi"}, {"assistant", ""}}};
  conversation.messages[1].is_null = true;
  conversation.messages[1].fields_json =
      R"({"tool_calls": [{"function": {"name": "look", "arguments": {}}}]})";
  const EncodedRow row = render_with(source, conversation);
  EXPECT_EQ(trained_text(row), "[call]look[/call]<|im_end|>");
  EXPECT_THAT(row.warnings, IsEmpty());
}

TEST_F(RenderRow, WithoutAnEndTokenOnlyTheContentIsTrained) {
  const std::string source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
  EXPECT_EQ(trained_text(render_with(source, {{{"user", "a"}, {"assistant", "sat"}}})), " sat");
}

TEST_F(RenderRow, B03TurnEndsAreTheTemplatesAndEos) {
  EXPECT_THAT(turn_end_ids(template_, tokenizer_), ElementsAre(1, 4));
  const auto eos_only =
      ChatTemplate::parse("{% for m in messages %}{{ m.content + '\n' }}{% endfor %}", "test");
  EXPECT_THAT(turn_end_ids(eos_only, tokenizer_), ElementsAre(1));
}

}  // namespace
}  // namespace duoka::data
