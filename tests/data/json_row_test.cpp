// SPDX-License-Identifier: Apache-2.0
#include "data/json_row.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka::data {
namespace {

using duoka::testing::message_of;
using ::testing::HasSubstr;

class JsonRow : public ::testing::Test {
 protected:
  std::string refusal(const std::string& json) {
    return message_of<DataError>([&] { parser_.parse(json); });
  }
  JsonRowParser parser_;
};

TEST_F(JsonRow, FindsKeysAndSaysWhereTheyAre) {
  const JsonObject row = parser_.parse(R"({"a": "x", "b": {"c": [1, 2]}, "": 5, "é": null})");
  EXPECT_EQ(text_of(need(row, "a")), "x");
  EXPECT_EQ(need(row, "a").where, "key 'a'");
  const Located b = need(row, "b", " of turn 2");
  EXPECT_EQ(b.where, "key 'b' of turn 2");
  EXPECT_EQ(array_of(need(object_of(b), "c")).size(), 2u);
  EXPECT_TRUE(has(row, ""));
  EXPECT_TRUE(is_null(need(row, "é")));
  EXPECT_FALSE(find(row, "A").has_value());
  EXPECT_FALSE(has(row, "A"));
}

TEST_F(JsonRow, AMissingKeyNamesThoseThere) {
  const JsonObject row = parser_.parse(R"({"instruction": 1, "output": 2})");
  EXPECT_EQ(message_of<DataError>([&] { need(row, "input"); }),
            "key 'input' is missing; found keys: instruction, output");
  EXPECT_EQ(message_of<DataError>([&] { need(row, "x", " of turn 3"); }),
            "key 'x' of turn 3 is missing; found keys: instruction, output");
  EXPECT_EQ(message_of<DataError>([&] { need(parser_.parse("{}"), "x"); }),
            "key 'x' is missing; found keys: none");
}

TEST_F(JsonRow, LongListsOfKeysAreCut) {
  std::string json = "{";
  for (int i = 0; i < 30; ++i) json += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":0";
  const std::string keys = keys_of(parser_.parse(json + "}"));
  EXPECT_THAT(keys, ::testing::EndsWith("k11, …"));
  EXPECT_EQ(keys_of(parser_.parse("{\"" + std::string(500, 'x') + "\": 1}")), std::string(60, 'x'));
}

TEST_F(JsonRow, AKeyThatOccursTwiceIsRefusedWhenUsed) {
  const JsonObject row = parser_.parse(R"({"a": 1, "a": 2, "b": 3})");
  EXPECT_EQ(message_of<DataError>([&] { find(row, "a"); }), "key 'a' occurs twice");
  EXPECT_TRUE(find(row, "b").has_value());
}

TEST_F(JsonRow, TypesAreNamed) {
  const JsonObject row = parser_.parse(
      R"({"null": null, "boolean": true, "string": "s", "array": [], "object": {}, "number": 1.5})");
  for (const auto field : row) EXPECT_EQ(type_name(field.value), field.key);
  EXPECT_EQ(message_of<DataError>([&] { text_of(need(row, "number")); }),
            "key 'number': found number, wanted string");
  EXPECT_EQ(message_of<DataError>([&] { array_of(need(row, "object")); }),
            "key 'object': found object, wanted array");
  EXPECT_EQ(message_of<DataError>([&] { object_of(need(row, "array")); }),
            "key 'array': found array, wanted object");
  EXPECT_EQ(message_of<DataError>([&] { text_of(need(row, "null")); }),
            "key 'null': found null, wanted string");
}

TEST_F(JsonRow, EscapesBecomeUtf8) {
  const JsonObject row = parser_.parse(R"({"a": "\u4f60\ud83e\udd99\n\"\\\/\u0000"})");
  EXPECT_EQ(text_of(need(row, "a")), std::string("你🦙\n\"\\/\0", 12));
}

TEST_F(JsonRow, SaysWhatIsWrongWithARow) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "found array, wanted an object"},
      {"5", "found number, wanted an object"},
      {"null", "found null, wanted an object"},
      {"\"a\"", "found string, wanted an object"},
      {"{\"a\": \"x", "ends inside a string; is the row torn?"},
      {"{\"a\": 1", "not JSON"},
      {"{\"a\": 1},", "a comma after the object"},
      {"{'a': 1}", "not JSON"},
      {"{\"a\": tru}", "a word that is not true, false or null"},
      {"{\"a\": nan}", "a word that is not true, false or null"},
      {"{\"a\": 01}", "a malformed number"},
      {"{\"a\": \"x\ty\"}", "a raw control character; write it as an escape"},
      {"{\"a\": \"\\x41\"}", "a bad escape"},
      {"{\"a\": \"\\ud83e\"}", "half a surrogate pair"},
      {"{\"a\": \"\xff\"}", "not valid UTF-8"},
      {"{\"a\": 1} {\"b\": 2}", "not JSON"},
      {"", "not JSON"},
      {"hello", "not JSON"},
  };
  for (const auto& [json, wanted] : cases) EXPECT_THAT(refusal(json), HasSubstr(wanted)) << json;
}

TEST_F(JsonRow, DeepNestingIsRefused) {
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']') + "}";
  };
  EXPECT_NO_THROW(parser_.parse(nested(500)));
  EXPECT_THAT(refusal(nested(2000)), HasSubstr("nested deeper than"));
  EXPECT_NO_THROW(parser_.parse("{\"a\": 1}")) << "the parser must go on after a bad row";
}

TEST_F(JsonRow, QuotedTextReadsBackAsItself) {
  std::string all;
  for (int byte = 0; byte < 0x80; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {std::string(), all, std::string("你\"\\🦙\u2028"), std::string("\0a", 2)}) {
    const JsonObject row = parser_.parse("{\"a\": " + json_quoted(text) + "}");
    EXPECT_EQ(text_of(need(row, "a")), text);
  }
}

TEST_F(JsonRow, WrittenJsonIsTheValue) {
  const JsonObject row = parser_.parse(R"({"a": { "b" : [ 1 , 2.50, true , null, "x y" ] , "c": {} } })");
  EXPECT_EQ(json_of(need(row, "a").value), R"({"b":[1,2.5,true,null,"x y"],"c":{}})");
}

}  // namespace
}  // namespace duoka::data
