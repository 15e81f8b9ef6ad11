// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/data_files.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/data/rows.h"

namespace duoka::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Conversation conversation(const std::string& json, RowFormat format = {}) {
  return std::get<Conversation>(RowReader(std::move(format), Stage::sft).read(json));
}

std::string text_row(const std::string& json, RowFormat format = {}) {
  return std::get<std::string>(RowReader(std::move(format), Stage::pt).read(json));
}

std::string refusal(const std::string& json, RowFormat format = {}, Stage stage = Stage::sft) {
  try {
    RowReader(std::move(format), stage).read(json);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

RowFormat shape(RowShape shape) {
  RowFormat format;
  format.shape = shape;
  return format;
}

/// "system: s | user: u".
std::string turns(const Conversation& conversation) {
  std::string out;
  for (const Message& m : conversation.messages)
    out += (out.empty() ? "" : " | ") + m.role + ": " + m.content;
  return out;
}

/// What becomes of each row of a file: its turns, or "line N: why".
std::vector<std::string> outcomes(const std::string& path) {
  const RowFile file(path);
  RowReader reader({}, Stage::sft);
  std::vector<std::string> result;
  for (int64_t i = 0; i < file.num_rows(); ++i) try {
      result.push_back(turns(std::get<Conversation>(reader.read(file.row(i)))));
    } catch (const DataError& error) {
      result.push_back("line " + std::to_string(file.line(i)) + ": " + error.what());
    }
  for (const FileDefect& defect : file.defects())
    result.push_back("line " + std::to_string(defect.line) + ": " + defect.reason);
  return result;
}

TEST(Alpaca, InstructionInputOutput) {
  EXPECT_EQ(turns(conversation(R"({"instruction": "a", "input": "b", "output": "c"})")),
            "user: a\nb | assistant: c");
  EXPECT_EQ(turns(conversation(R"({"instruction": "a", "output": ""})")), "user: a | assistant: ");
  EXPECT_EQ(turns(conversation(R"({"instruction": "", "input": "b", "output": "c"})")),
            "user: b | assistant: c");
  EXPECT_EQ(turns(conversation(R"({"instruction": "a", "input": null, "system": null, "output": "c"})")),
            "user: a | assistant: c");
}

TEST(Alpaca, SystemAndHistory) {
  EXPECT_EQ(turns(conversation(R"({"instruction": "q3", "output": "a3", "system": "s",
                                   "history": [["q1", "a1"], ["q2", "a2"]]})")),
            "system: s | user: q1 | assistant: a1 | user: q2 | assistant: a2 | user: q3 | assistant: a3");
  EXPECT_THAT(refusal(R"({"instruction": "q", "output": "a", "history": [["q1"]]})"),
              HasSubstr("an entry of key 'history': found 1 value, wanted 2"));
}

TEST(Alpaca, NamedColumns) {
  RowFormat format = shape(RowShape::alpaca);
  format.prompt = "question";
  format.response = "answer";
  EXPECT_EQ(turns(conversation(R"({"question": "q", "answer": "a"})", format)), "user: q | assistant: a");
  EXPECT_EQ(refusal(R"({"instruction": "q", "answer": "a"})", format),
            "key 'question' is missing; found keys: instruction, answer");
}

TEST(ShareGpt, NamedTags) {
  RowFormat format = shape(RowShape::sharegpt);
  format.messages = "dialog";
  format.role_tag = "who";
  format.content_tag = "says";
  format.user_tag = "frage";
  format.assistant_tag = "antwort";
  EXPECT_EQ(turns(conversation(
                R"({"dialog": [{"who": "frage", "says": "q"}, {"who": "antwort", "says": "a"}]})", format)),
            "user: q | assistant: a");
}

TEST(ShareGpt, SystemBesideTheTurns) {
  EXPECT_EQ(turns(conversation(R"({"system": "s", "conversations": [{"from": "human", "value": "q"},
                                   {"from": "gpt", "value": "a"}]})")),
            "system: s | user: q | assistant: a");
  EXPECT_THAT(refusal(R"({"system": "s", "conversations": [{"from": "system", "value": "t"},
                          {"from": "gpt", "value": "a"}]})"),
              HasSubstr("a system text both beside the turns and as the first turn"));
}

TEST(ShareGpt, ToolRolesAreRefusedByName) {
  EXPECT_THAT(
      refusal(
          R"({"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "{}"}]})"),
      AllOf(HasSubstr("turn 2"), HasSubstr("role 'function_call' (tool use)")));
}

TEST(Messages, KeysNotColumnNamesTellTheTwoApart) {
  EXPECT_EQ(turns(conversation(R"({"conversations": [{"role": "user", "content": "q"},
                                   {"role": "assistant", "content": "a"}]})")),
            "user: q | assistant: a");
  EXPECT_EQ(turns(conversation(
                R"({"messages": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})")),
            "user: q | assistant: a");
}

TEST(Messages, WeightAndDeveloper) {
  const Conversation c = conversation(R"({"messages": [{"role": "developer", "content": "s"},
      {"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0},
      {"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "weight": 1}]})");
  EXPECT_EQ(c.messages[0].role, "system");
  EXPECT_FALSE(c.messages[2].is_trained);
  EXPECT_TRUE(c.messages[4].is_trained);
  EXPECT_EQ(c.messages[2].fields_json, "");
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})"),
              HasSubstr("key 'weight' of turn 1: found 0.5, wanted 0 or 1"));
}

TEST(Messages, OtherFieldsAndToolsTravelAsJson) {
  const Conversation c =
      conversation(R"({"tools": [{"name": "f"}], "messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "content": "a", "reasoning_content": "so \"it\" is", "name": null}]})");
  EXPECT_EQ(nlohmann::json::parse(c.messages[1].fields_json),
            nlohmann::json({{"reasoning_content", "so \"it\" is"}}));
  EXPECT_EQ(nlohmann::json::parse(c.tools_json), nlohmann::json::parse(R"([{"name": "f"}])"));
  EXPECT_EQ(
      conversation(R"({"tools": null, "messages": [{"role": "assistant", "content": "a"}]})").tools_json, "");
  EXPECT_EQ(
      conversation(R"({"tools": " []", "messages": [{"role": "assistant", "content": "a"}]})").tools_json,
      " []");
}

TEST(Messages, OnlyPartsOfText) {
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
                          {"role": "assistant", "content": "a"}]})"),
              HasSubstr("a content part of turn 1 has type 'image_url'; only 'text' is read"));
}

TEST(Messages, NeedAnAssistantTurn) {
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "q"}]})"),
              HasSubstr("without an assistant turn"));
}

TEST(PromptCompletion, TextsOrTurns) {
  EXPECT_EQ(turns(conversation(R"({"prompt": "q", "completion": "a"})")), "user: q | assistant: a");
  const Conversation c = conversation(R"({"prompt": [{"role": "assistant", "content": "hello"},
      {"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})");
  EXPECT_EQ(turns(c), "assistant: hello | user: q | assistant: a");
  EXPECT_FALSE(c.messages[0].is_trained);
  EXPECT_TRUE(c.messages[2].is_trained);
}

TEST(Text, IsForStagePt) {
  EXPECT_EQ(text_row(R"({"text": "the cat"})"), "the cat");
  EXPECT_EQ(text_row(R"({"instruction": "x", "output": "y", "text": "all of it"})"), "all of it");
  RowFormat format = shape(RowShape::alpaca);  // dataset_info.json's way: columns {"prompt": "body"}.
  format.prompt = "body";
  EXPECT_EQ(text_row(R"({"body": "the dog"})", format), "the dog");
  EXPECT_THAT(refusal(R"({"text": "the cat"})"), HasSubstr("plain text is for stage pt"));
  EXPECT_THAT(refusal(R"({"messages": []})", {}, Stage::pt),
              HasSubstr("stage pt wants a text under the key 'text'"));
  EXPECT_THAT(refusal(R"({"text": ""})", {}, Stage::pt), HasSubstr("key 'text': an empty text"));
}

TEST(Detection, NamesTheKeysFound) {
  EXPECT_EQ(refusal(R"({"query": "a", "reply": "b"})"),
            "no known form: found keys query, reply; wanted messages, conversations, instruction + output, "
            "prompt + completion or text");
  EXPECT_EQ(refusal("{}"), refusal(R"({ })"));
  EXPECT_EQ(refusal("[1]"), "found array, wanted an object");
}

TEST(BadJson, SaysWhatIsWrong) {
  EXPECT_THAT(refusal(R"({"a": 1)"), HasSubstr("is the row torn?"));
  EXPECT_THAT(refusal(R"({"a": nul})"), HasSubstr("not true, false or null"));
  EXPECT_THAT(refusal("{\"text\": \"a\tb\"}"), HasSubstr("a raw control character"));
  EXPECT_THAT(refusal("{\"text\": \"\xc3\x28\"}"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(refusal(R"({"text": "a"} x)"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(R"({"text": "\ude00"})", {}, Stage::pt), HasSubstr("half a surrogate pair"));
}

TEST(Identity, HoldsEveryField) {
  RowFormat a = shape(RowShape::alpaca);
  RowFormat b = a;
  a.prompt = "x";
  b.query = "x";
  EXPECT_NE(a.identity(), b.identity());
}

TEST(CaseA01, ByteOrderMarkAndCrLf) {
  const auto expected = nlohmann::json::parse(read_text_file(fixture("cases/A01_expected.json")));
  std::vector<std::string> wanted;
  for (const auto& row : expected["rows"]) {
    const std::string input = row["input"];
    wanted.push_back("user: " + row["instruction"].get<std::string>() + (input.empty() ? "" : "\n" + input) +
                     " | assistant: " + row["output"].get<std::string>());
  }
  EXPECT_EQ(outcomes(fixture("cases/A01_bom_crlf.jsonl")), wanted);
}

class CaseA03 : public ::testing::TestWithParam<std::string> {};

TEST_P(CaseA03, RowsOrAnErrorWithLineAndKey) {
  const auto all = nlohmann::json::parse(read_text_file(fixture("cases/A03/expected.json")));
  const auto& expected = all.at(GetParam());
  const std::string path = fixture("cases/A03/" + GetParam());
  if (expected.contains("error")) {
    EXPECT_THROW(RowFile{path}, DataError);
    return;
  }
  const auto result = outcomes(path);
  if (expected.contains("ok")) {
    ASSERT_EQ(result.size(), expected["ok"].get<size_t>());
    EXPECT_THAT(result, ::testing::Each(::testing::StartsWith("user: ")));
  }
  // Where the case leaves a choice ("either"), a row is refused on line 1 here.
  const int line = expected.contains("either") ? 1 : expected.value("error_line", 0);
  if (line > 0) {
    ASSERT_GE(result.size(), static_cast<size_t>(line));
    const std::string& refused = result[static_cast<size_t>(line) - 1];
    EXPECT_THAT(refused, ::testing::StartsWith("line " + std::to_string(line) + ": "));
    if (expected.contains("key")) {
      EXPECT_THAT(refused, HasSubstr("key '" + expected["key"].get<std::string>() + "'"));
    }
    if (expected.contains("found")) {
      EXPECT_THAT(refused, HasSubstr("found " + expected["found"].get<std::string>()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, CaseA03,
                         ::testing::Values("array.json", "array_named.jsonl", "blank_lines.jsonl",
                                           "no_final_newline.jsonl", "trailing_comma.jsonl",
                                           "torn_last_line.jsonl", "number_output.jsonl", "list_output.jsonl",
                                           "missing_output.jsonl", "missing_input_ok.jsonl",
                                           "null_output.jsonl", "empty_file.jsonl", "duplicate_key.jsonl",
                                           "lone_surrogate.jsonl", "escaped_emoji.jsonl", "nul_char.jsonl"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

TEST(CaseA03Values, EmojiAndNul) {
  EXPECT_THAT(outcomes(fixture("cases/A03/escaped_emoji.jsonl")),
              ElementsAre("user: a | assistant: \xf0\x9f\x98\x80"));
  EXPECT_THAT(outcomes(fixture("cases/A03/nul_char.jsonl")),
              ElementsAre("user: a | assistant: " + std::string("b\0c", 3)));
}

TEST(CaseA04, NullContentAndParts) {
  const RowFile file(fixture("cases/A04_tool_calls_null.jsonl"));
  RowReader reader({}, Stage::sft);
  const auto row1 = std::get<Conversation>(reader.read(file.row(0)));
  EXPECT_TRUE(row1.messages[1].is_null);
  EXPECT_EQ(row1.messages[1].content, "");
  EXPECT_EQ(nlohmann::json::parse(row1.messages[1].fields_json)["tool_calls"][0]["function"]["name"],
            "lookup");
  EXPECT_EQ(row1.messages[2].role, "tool");
  EXPECT_EQ(std::get<Conversation>(reader.read(file.row(1))).messages[1].content, "the cat");
  EXPECT_EQ(refusal(std::string(file.row(2))), "key 'content' of turn 2: found null, wanted string");
}

TEST(CaseA05, ShareGptTurns) {
  EXPECT_THAT(
      outcomes(fixture("cases/A05_sharegpt_turns.jsonl")),
      ElementsAre("system: you are a tool | user: the cat | assistant: sat",
                  "user: the cat | user: and the dog | assistant: ran",
                  "assistant: hello | user: the cat | assistant: sat",
                  "user: the cat | assistant: sat | user: and",  //
                  "user: the cat | assistant: sat",
                  AllOf(HasSubstr("line 6: "), HasSubstr("unknown role 'hummany'"), HasSubstr("'human'")),
                  "line 7: an empty conversation",  //
                  "user: x | assistant: "));
}

TEST(CaseA07, DeepNestingIsALineError) {
  const std::string deep = R"({"instruction": "a", "output": "b", "x": )" + std::string(100000, '[') +
                           std::string(100000, ']') + "}";
  EXPECT_THAT(refusal(deep), HasSubstr("nested deeper than 1024 levels"));
}

TEST(CaseA08, PreferencePairsAreRefusedByName) {
  for (const std::string& outcome : outcomes(fixture("cases/A08_pairs.jsonl")))
    EXPECT_THAT(outcome, HasSubstr("a preference pair"));
}

TEST(RowReader, KeepsWorkingAfterABadRow) {
  RowReader reader({}, Stage::sft);
  EXPECT_THROW(reader.read("{\"inst"), DataError);
  EXPECT_EQ(turns(std::get<Conversation>(reader.read(R"({"instruction": "a", "output": "b"})"))),
            "user: a | assistant: b");
}

}  // namespace
}  // namespace duoka::data
