// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/options.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace duoka {
namespace {

using testing::HasSubstr;

struct Values {
  std::string path;
  std::string kind = "lora";
  int64_t steps = -1;
  double rate = 5e-5;
  bool is_fast = false;
  std::vector<std::string> targets{"all"};
  std::optional<int64_t> limit;
  double dropout = 0.1;
};

OptionTable<Values> table() {
  OptionTable<Values> t;
  t.group("Model").add("path", &Values::path, "Where the model lies.").required();
  t.add("kind", &Values::kind, "What trains.").one_of({"full", "lora"});
  t.group("Run").add("max_steps", &Values::steps, "Updates; -1: by epochs.").at_least(-1);
  t.add("learning_rate", &Values::rate, "Peak rate.").above(0);
  t.add("fast", &Values::is_fast, "Hurry.");
  t.add("targets", &Values::targets, "Module names.");
  t.add("limit", &Values::limit, "At most so many.").at_least(1);
  t.add("dropout", &Values::dropout, "Share of \"units\" dropped.").within_unit();
  return t;
}

OptionValue one(std::string s) { return {{std::move(s)}, false, false}; }

std::string error_of(std::string_view key, const OptionValue& value) {
  Values values;
  try {
    table().set(values, key, value, {"config.yaml:3"});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(OptionTable, SetsEachType) {
  Values v;
  const auto t = table();
  t.set(v, "path", one("x"), {});
  t.set(v, "kind", one("full"), {});
  t.set(v, "max_steps", one("010"), {});
  t.set(v, "learning_rate", one("1e-4"), {});
  t.set(v, "fast", one("yes"), {});
  t.set(v, "targets", {{"q_proj", "v_proj"}, true, false}, {});
  t.set(v, "limit", one("7"), {});
  EXPECT_EQ(v.path, "x");
  EXPECT_EQ(v.kind, "full");
  EXPECT_EQ(v.steps, 10);
  EXPECT_EQ(v.rate, 0.0001);
  EXPECT_TRUE(v.is_fast);
  EXPECT_EQ(v.targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(v.limit, 7);
  t.set(v, "limit", {{}, false, true}, {});
  EXPECT_EQ(v.limit, std::nullopt);
}

TEST(OptionTable, ErrorsSayOriginKeyFoundAndWanted) {
  EXPECT_EQ(error_of("max_step", one("3")), "config.yaml:3: unknown key 'max_step'; nearest is 'max_steps'");
  EXPECT_EQ(error_of("learning-rate", one("3")),
            "config.yaml:3: unknown key 'learning-rate'; nearest is 'learning_rate'");
  EXPECT_EQ(error_of("max_steps", one("two")),
            "config.yaml:3: max_steps: found 'two'; wanted a whole number");
  EXPECT_EQ(error_of("max_steps", one("1.5")),
            "config.yaml:3: max_steps: found '1.5'; wanted a whole number");
  EXPECT_EQ(error_of("learning_rate", one("0")),
            "config.yaml:3: learning_rate: found 0; wanted a number > 0");
  EXPECT_EQ(error_of("learning_rate", one("nan")),
            "config.yaml:3: learning_rate: found 'nan'; wanted a number");
  EXPECT_EQ(error_of("kind", one("qlora")), "config.yaml:3: kind: found 'qlora'; wanted one of full, lora");
  EXPECT_EQ(error_of("fast", one("maybe")), "config.yaml:3: fast: found 'maybe'; wanted true or false");
  EXPECT_EQ(error_of("fast", {{}, false, true}), "config.yaml:3: fast: found null; wanted a value");
  EXPECT_EQ(error_of("kind", {{"a", "b"}, true, false}),
            "config.yaml:3: kind: found a list of 2 values; wanted a single one");
  EXPECT_THAT(error_of("zzz", one("1")), HasSubstr("unknown key 'zzz'; `duoka train --help` lists the keys"));
  EXPECT_THAT(error_of("training.learning_rate", one("1")), HasSubstr("at its place it is 'learning_rate'"));
}

TEST(OptionTable, WhatIsRefusedChangesNothing) {
  Values v;
  const auto t = table();
  const std::string before = t.print(v, false);
  const OptionValue null{{}, false, true}, two{{"1", "2"}, true, false}, none{{}, true, false};
  const std::pair<const char*, OptionValue> refused[] = {
      {"kind", one("qlora")}, {"max_steps", one("-2")}, {"learning_rate", one("-1")},
      {"dropout", one("1")},  {"dropout", one("-0.1")}, {"limit", one("0")},
      {"limit", two},         {"limit", none},          {"path", null},
      {"max_steps", null}};
  for (const auto& [key, value] : refused) {
    EXPECT_THROW(t.set(v, key, value, {}), ConfigError) << key;
    EXPECT_EQ(t.print(v, false), before) << key;
  }
}

TEST(OptionTable, RangesHoldTheirEnds) {
  Values v;
  const auto t = table();
  t.set(v, "max_steps", one("-1"), {});
  t.set(v, "limit", one("1"), {});
  t.set(v, "dropout", one("0"), {});
  t.set(v, "dropout", one("0.9999999"), {});
  t.set(v, "learning_rate", one("1e-300"), {});
  EXPECT_EQ(error_of("max_steps", one("-2")), "config.yaml:3: max_steps: found -2; wanted a number >= -1");
  EXPECT_EQ(error_of("dropout", one("1")), "config.yaml:3: dropout: found 1; wanted a number in [0, 1)");
}

TEST(OptionTable, ListsTakeOneTextAndNoneToo) {
  Values v;
  const auto t = table();
  t.set(v, "targets", one("q_proj"), {});
  EXPECT_EQ(v.targets, (std::vector<std::string>{"q_proj"}));
  t.set(v, "targets", {{}, true, false}, {});
  EXPECT_TRUE(v.targets.empty());
}

TEST(OptionTable, SetsReplacesWhatSettingDoes) {
  OptionTable<Values> t;
  t.add("steps", &Values::steps, "Updates.").sets([](Values& v, const OptionValue& value) {
    v.steps = 100 * option_parse::integer(value.items.at(0));
  });
  Values v;
  t.set(v, "steps", one("3"), {});
  EXPECT_EQ(v.steps, 300);
  EXPECT_EQ(t.print(v, true), "steps: 300\n");
}

TEST(OptionTable, WhatIsPrintedReadsBackAsTheSame) {
  const auto t = table();
  Values v;
  v.path = "a b";
  v.steps = std::numeric_limits<int64_t>::max();
  v.is_fast = true;
  v.limit = 3;
  for (const double rate : {1e-300, 0.1, 1.0 / 3, 5e-5, 123456789.0, 1e22}) {
    v.rate = rate;
    Values back;
    for (const auto& option : t.options()) t.set(back, option.name, one(option.get(v)), {"print"});
    EXPECT_EQ(back.rate, rate);
    EXPECT_EQ(t.print(back, false), t.print(v, false));
  }
}

TEST(OptionParse, KnowsItsWords) {
  for (const char* word : {"true", "True", "YES", "on"}) EXPECT_TRUE(option_parse::boolean(word)) << word;
  for (const char* word : {"false", "False", "NO", "off"}) EXPECT_FALSE(option_parse::boolean(word)) << word;
  for (const char* word : {"", "1", "0", "y", "truee", " true"})
    EXPECT_THROW(option_parse::boolean(word), ConfigError) << word;
  EXPECT_EQ(option_parse::integer("+7"), 7);
  EXPECT_EQ(option_parse::integer("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const char* word :
       {"", "+", "-", "+-3", "1e3", "0x10", "1_000", " 1", "1 ", "1.0", "9223372036854775808"})
    EXPECT_THROW(option_parse::integer(word), ConfigError) << word;
  EXPECT_EQ(option_parse::number("+1e-4"), 1e-4);
  EXPECT_EQ(option_parse::number(".5"), 0.5);
  for (const char* word : {"", "1,5", "inf", "-inf", "nan", "1e999", "0x1p3", "1e", "+-1", "1 "})
    EXPECT_THROW(option_parse::number(word), ConfigError) << word;
}

TEST(OptionParse, NumberOfTooManyDigitsIsToldSo) {
  EXPECT_EQ(
      error_of("max_steps", one("99999999999999999999")),
      "config.yaml:3: max_steps: found '99999999999999999999'; wanted a whole number of at most 18 digits");
}

TEST(UnknownKey, ThatIsASectionIsToldSo) {
  const std::vector<std::string> names{"train.max_steps", "train.seed", "model.path"};
  EXPECT_EQ(detail::advice_for_unknown("train", names), "it is a section, of train.max_steps, train.seed");
  EXPECT_EQ(detail::advice_for_unknown("max_steps", names), "at its place it is 'train.max_steps'");
  EXPECT_EQ(detail::advice_for_unknown("model.seed", names), "at its place it is 'train.seed'");
  EXPECT_EQ(detail::advice_for_unknown("train.sed", names), "nearest is 'train.seed'");
}

TEST(OptionTable, RequiredOptionsAreNamed) {
  Values v;
  try {
    table().check_required(v);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "not given: path");
  }
  v.path = "here";
  EXPECT_NO_THROW(table().check_required(v));
}

TEST(OptionTable, PrintsOnlyWhatChanged) {
  Values v;
  v.steps = 5;
  EXPECT_EQ(table().print(v, true), "max_steps: 5\n");
  EXPECT_THAT(table().print(v, false), HasSubstr("learning_rate: 5e-05\n"));
}

TEST(OptionTable, HelpIsGroupedWrappedAndSaysDefaults) {
  OptionTable<Values> t;
  t.group("Model").add("path", &Values::path, "Where the model lies, a file or a folder of such.").required();
  t.add("kind", &Values::kind, "What trains.").one_of({"full", "lora"});
  t.group("Run").add("learning_rate", &Values::rate, "Peak.").above(0);
  EXPECT_EQ(t.help(40), R"(Model
  path  <text>  required
      Where the model lies, a file or a
      folder of such.
  kind  <full|lora>  default: lora
      What trains.

Run
  learning_rate  <number > 0>
      default: 5e-05
      Peak.
)");
  EXPECT_EQ(t.help(1), t.help(40)) << "a narrower terminal than can be served";
}

TEST(OptionTable, SchemaIsJsonThatSaysTypesRangesAndDefaults) {
  const auto schema = nlohmann::json::parse(table().json_schema("a \"title\""));
  EXPECT_EQ(schema["title"], "a \"title\"");
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["required"], nlohmann::json({"path"}));
  const auto& properties = schema["properties"];
  EXPECT_EQ(properties.size(), table().names().size());
  const auto expect = [&](const char* name, const char* wanted) {
    auto found = properties[name];
    found.erase("description");
    EXPECT_EQ(found, nlohmann::json::parse(wanted)) << name;
  };
  expect("path", R"({"type": "string"})");
  expect("kind", R"({"type": "string", "enum": ["full", "lora"], "default": "lora"})");
  expect("max_steps", R"({"type": "integer", "minimum": -1, "default": -1})");
  expect("learning_rate", R"({"type": "number", "exclusiveMinimum": 0, "default": 5e-05})");
  expect("fast", R"({"type": "boolean", "default": false})");
  expect("targets", R"({"type": ["string", "array"], "items": {"type": "string"}, "default": "all"})");
  expect("limit", R"({"type": ["integer", "null"], "minimum": 1, "default": null})");
  expect("dropout", R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.1})");
  EXPECT_EQ(properties["dropout"]["description"], "Share of \"units\" dropped.");
}

TEST(OptionTable, PageIsATableAGroup) {
  EXPECT_THAT(table().markdown(), HasSubstr("## Model\n\n| key | type | default | meaning |\n"));
  EXPECT_THAT(table().markdown(), HasSubstr("| `path` | text | required | Where the model lies. |\n"));
  EXPECT_THAT(table().markdown(), HasSubstr("| `kind` | full\\|lora | `lora` | What trains. |\n"));
  EXPECT_THAT(table().markdown(), HasSubstr("| `limit` | int >= 1 | `null` | At most so many. |\n"));
}

TEST(OptionTable, HelpSchemaAndPageNameEveryOption) {
  const auto t = table();
  for (const std::string& name : t.names()) {
    EXPECT_THAT(t.help(), HasSubstr(name));
    EXPECT_THAT(t.json_schema("x"), HasSubstr('"' + name + '"'));
    EXPECT_THAT(t.markdown(), HasSubstr('`' + name + '`'));
  }
}

}  // namespace
}  // namespace duoka
