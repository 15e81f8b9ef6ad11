// SPDX-License-Identifier: Apache-2.0
#include "data/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka::data {
namespace {

using duoka::testing::message_of;
using ::testing::HasSubstr;

class Turns : public ::testing::Test {
 protected:
  std::vector<Message> read(const std::string& list, const RowFormat& format = {}) {
    return read_turns(need(parser_.parse("{\"m\": " + list + "}"), "m"), format);
  }
  std::string refusal(const std::string& list, const RowFormat& format = {}) {
    return message_of<DataError>([&] { read(list, format); });
  }
  std::string tools(const std::string& value) {
    return read_tools(need(parser_.parse("{\"tools\": " + value + "}"), "tools"));
  }
  static RowFormat shaped(RowShape shape) {
    RowFormat format;
    format.shape = shape;
    return format;
  }
  JsonRowParser parser_;
};

TEST_F(Turns, RolesOfBothKindsOfTurns) {
  const auto open = read(R"([{"role": "system", "content": "s"}, {"role": "developer", "content": "d"},
      {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, {"role": "tool", "content": "t"}])");
  ASSERT_EQ(open.size(), 5u);
  const char* const roles[] = {"system", "system", "user", "assistant", "tool"};
  for (size_t i = 0; i < open.size(); ++i) EXPECT_EQ(open[i].role, roles[i]);
  const auto share = read(R"([{"from": "human", "value": "u"}, {"from": "gpt", "value": "a"},
      {"from": "user", "value": "u2"}, {"from": "assistant", "value": "a2"}, {"from": "system", "value": "s"}])");
  ASSERT_EQ(share.size(), 5u);
  EXPECT_EQ(share[0].role, "user");
  EXPECT_EQ(share[1].role, "assistant");
  EXPECT_EQ(share[3].content, "a2");
  EXPECT_TRUE(read("[]").empty());
}

TEST_F(Turns, TagsRenameKeysAndRoles) {
  RowFormat format = shaped(RowShape::sharegpt);
  format.role_tag = "who";
  format.content_tag = "says";
  format.user_tag = "me";
  format.assistant_tag = "you";
  format.system_tag = "rules";
  const auto turns = read(
      R"([{"who": "rules", "says": "r"}, {"who": "me", "says": "m"}, {"who": "you", "says": "y"}])", format);
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[0].role, "system");
  EXPECT_EQ(turns[1].role, "user");
  EXPECT_EQ(turns[2].content, "y");
  EXPECT_THAT(refusal(R"([{"from": "me", "value": "m"}])", format),
              HasSubstr("key 'who' of turn 1 is missing"));
}

TEST_F(Turns, UnknownRolesNameTheNearest) {
  EXPECT_EQ(refusal(R"([{"role": "user", "content": "x"}, {"role": "asistant", "content": "x"}])"),
            "key 'role' of turn 2: unknown role 'asistant'; wanted system, human/user or gpt/assistant; "
            "nearest is 'assistant'");
  EXPECT_THAT(refusal(R"([{"role": "zzzzzz", "content": "x"}])"), ::testing::EndsWith("gpt/assistant"));
  EXPECT_THAT(refusal(R"([{"from": "function_call", "value": "x"}])"),
              HasSubstr("(tool use) is only read in OpenAI messages"));
  EXPECT_THAT(refusal(R"([{"from": "tool", "value": "x"}])"), HasSubstr("(tool use)"));
}

TEST_F(Turns, ContentMustBeText) {
  EXPECT_EQ(refusal(R"([{"role": "user", "content": 5}])"),
            "key 'content' of turn 1: found number, wanted string");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": null}])"),
            "key 'content' of turn 1: found null, wanted string");
  EXPECT_EQ(refusal(R"([{"role": "user"}])"), "key 'content' of turn 1 is missing");
  EXPECT_EQ(refusal(R"([{"from": "gpt", "value": ["x"]}])"),
            "key 'value' of turn 1: found array, wanted string");
  EXPECT_EQ(refusal(R"([5])"), "turn 1: found number, wanted object");
  EXPECT_EQ(refusal(R"("x")"), "key 'm': found string, wanted array");
  EXPECT_THAT(refusal(R"([{"role": "user", "role": "user", "content": "x"}])"), HasSubstr("occurs twice"));
}

TEST_F(Turns, PartsOfTextAreJoined) {
  const auto turns =
      read(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": []}])");
  EXPECT_EQ(turns[0].content, "ab");
  EXPECT_EQ(turns[1].content, "");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": [{"type": "image_url", "image_url": "u"}]}])"),
            "a content part of turn 1 has type 'image_url'; only 'text' is read");
  EXPECT_THAT(refusal(R"([{"role": "user", "content": ["x"]}])"),
              HasSubstr("a content part of turn 1: found string"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": [{"type": "text"}]}])"),
              HasSubstr("key 'text' of a content part"));
}

TEST_F(Turns, ATurnThatOnlyCallsMayHaveNullContent) {
  const auto turns =
      read(R"([{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f"}}]},
      {"role": "assistant", "tool_calls": [1]}])");
  EXPECT_TRUE(turns[0].is_null);
  EXPECT_EQ(turns[0].content, "");
  EXPECT_EQ(turns[0].fields_json, R"({"tool_calls":[{"function":{"name":"f"}}]})");
  EXPECT_TRUE(turns[1].is_null);
  EXPECT_THAT(refusal(R"([{"role": "assistant", "content": null, "tool_calls": []}])"),
              HasSubstr("found null"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": null, "tool_calls": [1]}])"), HasSubstr("found null"));
}

TEST_F(Turns, OtherFieldsTravelWithoutNulls) {
  const auto turns =
      read(R"([{"role": "user", "content": "x", "name": "A \"B\"", "gone": null, "n": {"a": [1]}}])");
  EXPECT_EQ(turns[0].fields_json, R"({"name":"A \"B\"","n":{"a":[1]}})");
  EXPECT_EQ(read(R"([{"role": "user", "content": "x"}])")[0].fields_json, "");
  EXPECT_EQ(read(R"([{"from": "human", "value": "x", "name": "A"}])")[0].fields_json, "");
}

TEST_F(Turns, WeightKeepsATurnOutOfTheLoss) {
  const auto turns = read(
      R"([{"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", "content": "b", "weight": 1},
      {"role": "assistant", "content": "c", "weight": null}, {"role": "assistant", "content": "d"}])");
  EXPECT_FALSE(turns[0].is_trained);
  for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(turns[i].is_trained) << i;
  EXPECT_EQ(turns[0].fields_json, "");
  EXPECT_EQ(refusal(R"([{"role": "assistant", "content": "a", "weight": 0.5}])"),
            "key 'weight' of turn 1: found 0.5, wanted 0 or 1");
  EXPECT_THAT(refusal(R"([{"role": "assistant", "content": "a", "weight": "1"}])"),
              HasSubstr("found string, wanted 0 or 1"));
}

TEST_F(Turns, ToolsAreAnArrayOrItsText) {
  EXPECT_EQ(tools(R"([{"name" : "f"}])"), R"([{"name":"f"}])");
  EXPECT_EQ(tools(R"("[{\"name\": \"f\"}]")"), R"([{"name": "f"}])");
  for (const char* none : {"null", "[]", "\"\"", "\" \\n\""}) EXPECT_EQ(tools(none), "") << none;
  EXPECT_THAT(message_of<DataError>([&] { tools("\"f(x)\""); }), HasSubstr("no JSON array"));
  EXPECT_THAT(message_of<DataError>([&] { tools("{}"); }), HasSubstr("found object, wanted array"));
}

TEST_F(Turns, SomethingMustBeTrained) {
  EXPECT_EQ(message_of<DataError>([] { check_turns({}); }), "an empty conversation");
  Message answer{"assistant", "a"};
  EXPECT_NO_THROW(check_turns({{"user", "u"}, answer}));
  answer.is_trained = false;
  EXPECT_THAT(message_of<DataError>([&] {
                check_turns({{"user", "u"}, answer});
              }),
              HasSubstr("without an assistant turn"));
}

}  // namespace
}  // namespace duoka::data
