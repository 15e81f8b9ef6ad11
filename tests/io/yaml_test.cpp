// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka::io {
namespace {

using duoka::testing::message_of;
using duoka::testing::TemporaryFolder;
using duoka::testing::write_file;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(std::string_view text) {
  return message_of<ConfigError>([&] { parse_yaml_text(text, "c.yaml"); });
}

std::string repeated(std::string_view piece, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += piece;
  return all;
}

TEST(Yaml, KeepsOrderLinesAndScalarsAsText) {
  const YamlDocument document = parse_yaml_text(
      "# a comment\n"
      "learning_rate: 1e-4\n"
      "seed: 010\n"
      "bf16: yes\n"
      "template: \"yes\"   # quoted\n"
      "\n"
      "note: |\n"
      "  two\n"
      "  lines\n",
      "c.yaml");
  ASSERT_EQ(document.entries.size(), 5u);
  EXPECT_EQ(document.origin, "c.yaml");
  const auto expect = [&](size_t i, const char* key, int line, const char* text, bool was_quoted) {
    const YamlEntry& entry = document.entries[i];
    EXPECT_EQ(entry.key, key);
    EXPECT_EQ(entry.line, line);
    EXPECT_EQ(entry.column, 1);
    EXPECT_EQ(entry.value.kind, YamlValue::Kind::scalar);
    EXPECT_EQ(entry.value.text, text);
    EXPECT_EQ(entry.value.was_quoted, was_quoted);
  };
  expect(0, "learning_rate", 2, "1e-4", false);
  expect(1, "seed", 3, "010", false);  // not 8
  expect(2, "bf16", 4, "yes", false);
  expect(3, "template", 5, "yes", true);
  expect(4, "note", 7, "two\nlines\n", true);
}

TEST(Yaml, TellsNullFromTextThatLooksLikeIt) {
  const auto kind = [](std::string_view text) { return parse_yaml_value(text, "argument").kind; };
  for (const char* text : {"~", "null", "NULL", ""}) EXPECT_EQ(kind(text), YamlValue::Kind::null) << text;
  for (const char* text : {"\"null\"", "''", "none", "nil"})
    EXPECT_EQ(kind(text), YamlValue::Kind::scalar) << text;
  EXPECT_EQ(parse_yaml_text("a:\nb: 1\n", "c").entries[0].value.kind, YamlValue::Kind::null);
}

TEST(Yaml, AnExplicitTextTagQuotes) {
  EXPECT_TRUE(parse_yaml_value("!!str null", "argument").was_quoted);
  EXPECT_EQ(parse_yaml_value("!!int 7", "argument").text, "7");
}

TEST(Yaml, ReadsListsAndMaps) {
  const YamlDocument document =
      parse_yaml_text("lora_target: [q_proj, \"v_proj\"]\ndata:\n  - a\n  - 2\nnested:\n  x: 1\n", "c");
  const YamlValue& list = document.entries[0].value;
  ASSERT_EQ(list.kind, YamlValue::Kind::list);
  EXPECT_EQ(list.items[0].text, "q_proj");
  EXPECT_TRUE(list.items[1].was_quoted);
  EXPECT_EQ(document.entries[1].value.items[1].text, "2");
  EXPECT_EQ(document.entries[1].value.items[1].line, 4);
  ASSERT_EQ(document.entries[2].value.kind, YamlValue::Kind::map);
  EXPECT_EQ(document.entries[2].value.entries[0].key, "x");
  EXPECT_EQ(document.entries[2].value.entries[0].line, 6);
}

TEST(Yaml, ReadsOneValueAsOnACommandLine) {
  EXPECT_EQ(parse_yaml_value("[a, b]", "argument").items.size(), 2u);
  EXPECT_EQ(parse_yaml_value("1e-4", "argument").text, "1e-4");
  EXPECT_THAT(message_of<ConfigError>([] { parse_yaml_value("[a", "argument lora_target"); }),
              StartsWith("argument lora_target:1:3: "));
}

TEST(Yaml, AnchorsWork) {
  const YamlDocument document = parse_yaml_text("a: &x [1, 2]\nb: *x\n", "c");
  EXPECT_EQ(document.entries[1].value.items[1].text, "2");
}

// Case A01: a configuration saved on Windows.
TEST(Yaml, A01AByteOrderMarkAndCrlfAreNoPartOfIt) {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml",
             "\xEF\xBB\xBFstage: sft\r\nname: \"a\r\n  b\"\r\nlist:\r\n  - x\r\n\r\nlast: 1");
  const YamlDocument document = parse_yaml_file(folder / "c.yaml");
  ASSERT_EQ(document.entries.size(), 4u);
  EXPECT_EQ(document.entries[0].key, "stage");
  EXPECT_EQ(document.entries[0].value.text, "sft");
  EXPECT_EQ(document.entries[1].value.text, "a b");
  EXPECT_EQ(document.entries[2].value.items[0].text, "x");
  EXPECT_EQ(document.entries[3].line, 7);
}

// Case H01: what users type.
TEST(Yaml, H01DuplicateKeysAreRefusedAtTheSecond) {
  EXPECT_EQ(refusal("lr: 1\nseed: 2\nlr: 3\n"),
            "c.yaml:3:1: the key lr is given twice, first on line 1; remove one");
  EXPECT_THAT(refusal("a:\n  x: 1\n  x: 2\n"), StartsWith("c.yaml:3:3: the key x is given twice"));
  EXPECT_THAT(refusal("a: 1\n\"a\": 2\n"), HasSubstr("given twice"));
}

TEST(Yaml, H01ATabIndentIsRefusedAsSuch) {
  EXPECT_THAT(refusal("a:\n\tx: 1\n"), StartsWith("c.yaml:2:1: a tab is used to indent"));
  EXPECT_THAT(refusal("a:\n  - 1\n  \t- 2\n- x"), HasSubstr(":3:3: a tab is used to indent"));
  EXPECT_EQ(parse_yaml_text("a: |\n  x\n  \ty\nb:\t1\n", "c").entries[1].value.text, "1");
}

TEST(Yaml, H01AnEmptyFileIsRefused) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "\xEF\xBB\xBF", "---\n", "~"})
    EXPECT_THAT(refusal(text), HasSubstr("c.yaml:1:1: it is empty")) << text;
}

TEST(Yaml, MalformedTextIsRefusedWithItsPlace) {
  EXPECT_THAT(refusal("a: [1, 2\nb: 3\n"), StartsWith("c.yaml:"));
  EXPECT_THAT(refusal("a: 1\n b: 2\n"), StartsWith("c.yaml:2:"));
  EXPECT_THAT(refusal("a: \"open\n"), HasSubstr("never closed"));
  EXPECT_THAT(refusal("a: 'open\nb: 1\n"), StartsWith("c.yaml:2:5: a quote that was opened is never closed"));
  EXPECT_THAT(refusal("a: \"open"), HasSubstr("never closed"));
  EXPECT_THAT(refusal("a: *nobody\n"), HasSubstr("c.yaml:1:"));
  EXPECT_THAT(refusal("just words\n"), StartsWith("c.yaml:1:1: the file is no map"));
  EXPECT_THAT(refusal("- a\n- b\n"), HasSubstr("no map"));
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("second document"));
  EXPECT_THAT(refusal("[1, 2]: 3\n"), HasSubstr("a key is no plain text"));
  EXPECT_THAT(refusal("base: &b {x: 1}\nrun:\n  <<: *b\n"), StartsWith("c.yaml:3:3: merge keys"));
  EXPECT_THAT(refusal("a: !!python/object:os.system x\n"),
              HasSubstr("python/object:os.system is not supported"));
  EXPECT_THAT(refusal("a: !custom x\n"), HasSubstr("!custom"));
  EXPECT_THAT(refusal("\xFF\xFE"
                      "a"),
              HasSubstr("UTF-16"));
}

TEST(Yaml, NeitherDepthNorAliasesCanExhaustTheProgram) {
  EXPECT_THAT(refusal("a: " + repeated("[", 100'000)), HasSubstr("nested too deep"));
  EXPECT_THAT(refusal(repeated("- ", 100'000)), HasSubstr("nested too deep"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + repeated(before + ", ", 9) +
            before + "]\n";
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("more than 100000 values"));
}

TEST(Yaml, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(message_of<SystemError>([] { parse_yaml_file("/nowhere/c.yaml"); }),
              HasSubstr("/nowhere/c.yaml"));
}

}  // namespace
}  // namespace duoka::io
