// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "support/cpu_time.h"
#include "support/test_files.h"

namespace duoka::io {
namespace {

using duoka::testing::cpu_seconds;
using duoka::testing::message_of;
using duoka::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(std::string_view text, int64_t first_line = 1) {
  return message_of<FormatError>([&] { parse_json(text, "f.json", first_line); });
}

std::string repeated(std::string_view piece, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += piece;
  return all;
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const Json json =
      parse_json(R"( {"z": [1, -2, 2.5, true, null], "a": {"é": "\u00e9\ud83d\ude00\n"}} )", "f");
  EXPECT_EQ(json.dump(), "{\"z\":[1,-2,2.5,true,null],\"a\":{\"é\":\"é😀\\n\"}}");
  EXPECT_EQ(parse_json("18446744073709551615", "f").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "f").get<int64_t>(), INT64_MIN);
}

TEST(ParseJson, AcceptsAByteOrderMark) {
  const Json json = parse_json("\xEF\xBB\xBF{\"instruction\": 1}\r\n", "f");
  EXPECT_EQ(json.begin().key(), "instruction");
}

struct BadText {
  const char* text;
  const char* message;
};

void PrintTo(const BadText& bad, std::ostream* out) { *out << bad.text; }

class ParseJsonRefuses : public ::testing::TestWithParam<BadText> {};

TEST_P(ParseJsonRefuses, WithThePosition) {
  EXPECT_THAT(refusal(GetParam().text), StartsWith(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ParseJsonRefuses,
    ::testing::Values(BadText{"", "f.json:1:1: "}, BadText{"{\n  \"a\": 1,\n}", "f.json:3:1: "},
                      BadText{"[1, 2", "f.json:1:6: "}, BadText{"{\"a\": nul}", "f.json:1:10: "},
                      BadText{"{\"a\": 1} x", "f.json:1:10: "}, BadText{"{'a': 1}", "f.json:1:2: "},
                      BadText{"\xEF\xBB\xBF{x}", "f.json:1:2: "}, BadText{"[\"\\ud800\"]", "f.json:1:9: "},
                      BadText{"[\"\\udc00\"]", "f.json:1:8: "}, BadText{"[\"\xC3\x28\"]", "f.json:1:4: "},
                      BadText{"[1e999]", "f.json:1:6: number overflow"}, BadText{"[NaN]", "f.json:1:2: "},
                      BadText{"[\"a\nb\"]", "f.json:"},
                      BadText{"{\"a\": 1,\n  \"b\": 2, \"a\": 3}",
                              "f.json:2:11: the key \"a\" is given twice"},
                      BadText{"{\"q\\\"\": 1, \"q\\\"\": 2}", "f.json:1:12: the key \"q\"\" is given twice"},
                      BadText{"\xFF\xFE{", "f.json: it is UTF-16"}));

TEST(ParseJson, SaysWhyInAFewWords) {
  EXPECT_THAT(refusal("{\"a\": 1,}"), HasSubstr("expected string literal"));
  EXPECT_THAT(refusal("[\"\\ud800\"]"), HasSubstr("surrogate"));
  EXPECT_THAT(refusal("[\"" + repeated("x", 1000) + "\xC3\x28\"]"), HasSubstr("ill-formed UTF-8"));
  EXPECT_LT(refusal("[\"" + repeated("x", 1000) + "\xC3\x28\"]").size(), 150u);
}

TEST(ParseJson, CountsLinesFromWhereTheTextBegins) {
  EXPECT_THAT(refusal("{\"a\": }", 17), StartsWith("f.json:17:7:"));
}

TEST(ParseJson, BoundsItsNesting) {
  const auto nested = [](size_t depth) { return repeated("[", depth) + repeated("]", depth); };
  EXPECT_EQ(parse_json(nested(max_json_depth), "f").size(), 1u);
  EXPECT_THAT(refusal(nested(max_json_depth + 1)), StartsWith("f.json:1:257: nested more than 256 deep"));
  EXPECT_THAT(refusal(repeated("[", 100'000)), HasSubstr("nested more than 256 deep"));
  EXPECT_THAT(refusal(repeated("{\"a\":", 100'000)), HasSubstr("nested more than 256 deep"));
}

TEST(ParseJson, FindsADuplicateAmongManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += "\"k" + std::to_string(i) + "\": 0,\n";
  EXPECT_THAT(refusal(text + "\"k3\": 1}"), StartsWith("f.json:101:1: the key \"k3\" is given twice"));
  EXPECT_THAT(refusal(text + "\"k99\": 1}"), HasSubstr("\"k99\" is given twice"));
  EXPECT_EQ(parse_json(text + "\"k100\": 1}", "f").size(), 101u);
}

// A vocabulary of 200,000 entries: quadratic look-ups of keys would take minutes.
TEST(ParseJson, IsLinearInTheNumberOfKeys) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"token" + std::to_string(i) + "\": " + std::to_string(i) + ", ";
  text += "\"last\": 0}";
  const double start = cpu_seconds();
  EXPECT_EQ(parse_json(text, "f").size(), 200'001u);
  EXPECT_LT(cpu_seconds() - start, 5);
}

TEST(ReadJsonFile, NamesItsFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json", "{\n\"a\" 1}");
  EXPECT_THAT(message_of<FormatError>([&] { read_json_file(folder / "config.json"); }),
              StartsWith((folder / "config.json").string() + ":2:5: "));
  EXPECT_THROW(read_json_file(folder / "gone.json"), SystemError);
}

class JsonMembers : public ::testing::Test {
 protected:
  Json json_ = parse_json(
      R"({"int": 7, "whole": 4096.0, "half": 0.5, "big": 18446744073709551615, "yes": true, "name": "llama",
          "null": null, "list": [1], "map": {}})",
      "config.json");
};

TEST_F(JsonMembers, AreReadByType) {
  EXPECT_EQ(require_int(json_, "int", "f"), 7);
  EXPECT_EQ(require_int(json_, "whole", "f"), 4096);
  EXPECT_EQ(require_number(json_, "int", "f"), 7.0);
  EXPECT_EQ(require_number(json_, "half", "f"), 0.5);
  EXPECT_TRUE(require_bool(json_, "yes", "f"));
  EXPECT_EQ(require_string(json_, "name", "f"), "llama");
  EXPECT_EQ(require_array(json_, "list", "f").size(), 1u);
  EXPECT_TRUE(require_object(json_, "map", "f").empty());
}

TEST_F(JsonMembers, ThatAreAbsentOrNullAreNothing) {
  for (const char* key : {"null", "absent"}) {
    EXPECT_EQ(optional_int(json_, key, "f"), std::nullopt);
    EXPECT_EQ(optional_number(json_, key, "f"), std::nullopt);
    EXPECT_EQ(optional_bool(json_, key, "f"), std::nullopt);
    EXPECT_EQ(optional_string(json_, key, "f"), std::nullopt);
    EXPECT_EQ(optional_object(json_, key, "f"), nullptr);
    EXPECT_EQ(optional_array(json_, key, "f"), nullptr);
    EXPECT_EQ(message_of<FormatError>([&] { require_int(json_, key, "c.json"); }),
              "c.json: the key \"" + std::string(key) + "\" is missing");
    EXPECT_THROW(require_array(json_, key, "f"), FormatError);
  }
}

TEST_F(JsonMembers, OfAnotherTypeAreRefusedByName) {
  EXPECT_EQ(message_of<FormatError>([&] { require_int(json_, "half", "c.json"); }),
            "c.json: \"half\" is 0.5; wanted a whole number");
  EXPECT_THROW(require_int(json_, "big", "f"), FormatError);
  EXPECT_THROW(optional_int(json_, "name", "f"), FormatError);
  EXPECT_THROW(optional_number(json_, "yes", "f"), FormatError);
  EXPECT_THROW(optional_bool(json_, "int", "f"), FormatError);
  EXPECT_THROW(optional_string(json_, "int", "f"), FormatError);
  EXPECT_THROW(optional_object(json_, "list", "f"), FormatError);
  EXPECT_THROW(optional_array(json_, "map", "f"), FormatError);
  EXPECT_THAT(message_of<FormatError>([&] { require_int(Json::array(), "a", "c.json"); }),
              HasSubstr("wanted an object"));
}

}  // namespace
}  // namespace duoka::io
