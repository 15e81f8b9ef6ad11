// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(OptionTable, RequiredOptionsAreNamed) {
  Values v;
  EXPECT_THROW(table().check_required(v), ConfigError);
  v.path = "here";
  EXPECT_NO_THROW(table().check_required(v));
}

TEST(OptionTable, PrintsOnlyWhatChanged) {
  Values v;
  v.steps = 5;
  EXPECT_EQ(table().print(v, true), "max_steps: 5\n");
  EXPECT_THAT(table().print(v, false), HasSubstr("learning_rate: 5e-05\n"));
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
