// SPDX-License-Identifier: Apache-2.0
// Case H01: what is wrong in a configuration is said at once, with its place, and nothing is loaded before.
#include <gmock/gmock.h>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ConfigTest : public ::testing::Test {
 protected:
  /// Five good lines; what a test adds begins on line 6.
  std::string good_lines() const {
    return "model_name_or_path: " + Workshop::case_file("models/tiny-llama").string() + "\n" +
           "dataset: " + Workshop::case_file("rows7.jsonl").string() + "\n" +
           "cache_dir: " + (shop_ / "cache").string() + "\noutput_dir: " + (shop_ / "out").string() +
           "\nmax_steps: 1\n";
  }
  Outcome train(const std::string& config, const Words& more = {}) const {
    write_file(shop_ / "c.yaml", config);
    Words words{"train", "c.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return run_duoka(words, {.folder = shop_.path()});
  }
  /// Refused in one line that holds all of `parts`, before data, model or output were touched.
  void expect_refused(const Outcome& outcome, const Words& parts) const {
    SCOPED_TRACE(outcome.all());
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(lines_of(outcome.err), SizeIs(1));
    EXPECT_THAT(outcome.err, HasSubstr("error: ConfigError: "));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(shop_ / "out"));
    EXPECT_FALSE(std::filesystem::exists(shop_ / "cache"));
  }

  Workshop shop_;
};

TEST_F(ConfigTest, TypoNamesPlaceAndNearestKey) {
  expect_refused(train(good_lines() + "lora_ranl: 4\n"),
                 {"c.yaml:6:", "'lora_ranl'", "nearest is 'lora_rank'"});
}

TEST_F(ConfigTest, KeyAtTheTopThatBelongsInASection) {
  expect_refused(train(good_lines() + "min_lr: 1e-5\n"),
                 {"c.yaml:6:", "'min_lr'", "at its place it is 'lr_scheduler_kwargs.min_lr'"});
}

TEST_F(ConfigTest, KeyInASectionThatBelongsAtTheTop) {
  expect_refused(train(good_lines() + "lr_scheduler_kwargs:\n  learning_rate: 0.1\n"),
                 {"c.yaml:7:", "'lr_scheduler_kwargs.learning_rate'", "at its place it is 'learning_rate'"});
  expect_refused(train(good_lines() + "model:\n  lora_rank: 4\n"),
                 {"'model.lora_rank'", "at its place it is 'lora_rank'"});
}

TEST_F(ConfigTest, SectionGivenAsAValue) {
  expect_refused(train(good_lines() + "lr_scheduler_kwargs: 3\n"),
                 {"c.yaml:6:", "it is a section", "lr_scheduler_kwargs.min_lr"});
}

TEST_F(ConfigTest, HyphenForUnderscore) {
  expect_refused(train(good_lines() + "num-train-epochs: 3\n"),
                 {"c.yaml:6:", "nearest is 'num_train_epochs'"});
}

TEST_F(ConfigTest, WrongTypeNamesTheWantedOne) {
  expect_refused(train(good_lines() + "per_device_train_batch_size: \"two\"\n"),
                 {"c.yaml:6:", "per_device_train_batch_size", "found 'two'", "wanted a whole number"});
  expect_refused(train(good_lines() + "packing: maybe\n"), {"c.yaml:6:", "wanted true or false"});
  expect_refused(train(good_lines() + "lora_rank: [4]\n"),
                 {"c.yaml:6:", "found a list", "wanted a single one"});
  expect_refused(train(good_lines() + "optim: lion\n"), {"c.yaml:6:", "found 'lion'", "adamw_torch"});
}

TEST_F(ConfigTest, OutOfRangeNamesTheRange) {
  expect_refused(train(good_lines() + "learning_rate: -1\n"),
                 {"c.yaml:6:", "found -1", "wanted a number > 0"});
  expect_refused(train(good_lines() + "save_total_limit: 0\n"), {"c.yaml:6:", "found 0", ">= 1"});
}

TEST_F(ConfigTest, ExponentWithoutAPointIsANumberAndYesIsTrue) {
  const Outcome outcome = train(good_lines() + "learning_rate: 1e-4\nbf16: yes\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("  learning_rate: 1e-04\n"), HasSubstr("  bf16: true\n"),
                                 HasSubstr("computing in bf16"), HasSubstr(" lr=0.0001 ")));
}

TEST_F(ConfigTest, KeyGivenTwice) {
  expect_refused(train(good_lines() + "learning_rate: 1e-4\nlearning_rate: 1e-3\n"),
                 {"c.yaml:7:1:", "learning_rate is given twice", "line 6"});
}

TEST_F(ConfigTest, TabAsIndent) {
  expect_refused(train(good_lines() + "lr_scheduler_kwargs:\n\tmin_lr: 1e-5\n"), {"c.yaml:7:1:", "tab"});
}

TEST_F(ConfigTest, EmptyFileAndFileOfSomethingElse) {
  expect_refused(train(""), {"c.yaml:1:1:", "empty"});
  expect_refused(train("# only a remark\n"), {"c.yaml:1:1:", "empty"});
  expect_refused(train("- a\n- b\n"), {"c.yaml:1:1:", "key: value"});
}

TEST_F(ConfigTest, UnknownKeyOnTheCommandLine) {
  expect_refused(train(good_lines(), {"lora_ranl=4"}),
                 {"command line", "'lora_ranl'", "nearest is 'lora_rank'"});
  expect_refused(train(good_lines(), {"4"}), {"command line", "'4'", "wanted key=value"});
}

TEST_F(ConfigTest, CommandLineWinsOverTheFile) {
  const Outcome outcome = train(good_lines(), {"max_steps=2", "logging_steps=1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(lines_with(outcome.err, "step="), SizeIs(2));
}

TEST_F(ConfigTest, NoSuchConfigFile) {
  expect_refused(run_duoka({"train", "nothere.yaml"}, {.folder = shop_.path()}),
                 {"no config file 'nothere.yaml'"});
}

/// A relative path that leads nowhere is most often one from another folder.
TEST_F(ConfigTest, WhereARelativePathWasLookedForIsSaid) {
  const std::string here = "(in " + std::filesystem::canonical(shop_.path()).string() + ")";
  expect_refused(run_duoka({"train", "nothere.yaml"}, {.folder = shop_.path()}), {here});
  for (const char* word : {"model_name_or_path=models/none", "dataset=rows/none.jsonl", "template=none/a",
                           "resume_from_checkpoint=out/checkpoint-3"}) {
    const Outcome outcome = train(good_lines(), {word});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(outcome.err, HasSubstr(here)) << word;
  }
  EXPECT_THAT(train(good_lines(), {"adapter_name_or_path=adapters/none"}).err, HasSubstr(here));
  EXPECT_THAT(train(good_lines(), {"model_name_or_path=/no/such"}).err, Not(HasSubstr("(in ")));
}

TEST_F(ConfigTest, WhatIsRequiredIsNamed) {
  expect_refused(run_duoka({"train"}), {"not given: model_name_or_path, dataset, output_dir"});
}

TEST_F(ConfigTest, MissingModelAndDataAreNamed) {
  expect_refused(train(good_lines(), {"model_name_or_path=/no/such/model"}),
                 {"model_name_or_path", "nothing at '/no/such/model'"});
  expect_refused(train(good_lines(), {"dataset=no_such.jsonl"}), {"'no_such.jsonl'", "no such file"});
}

TEST_F(ConfigTest, OptionsThatExcludeEachOther) {
  expect_refused(train(good_lines() + "load_best_model_at_end: true\n"),
                 {"load_best_model_at_end", "val_size or eval_dataset"});
  expect_refused(train(good_lines() + "val_size: 1\neval_dataset: x.jsonl\n"), {"eval_dataset and val_size"});
  expect_refused(train(good_lines() + "eval_on_start: true\n"), {"eval_on_start", "need evaluations"});
  expect_refused(train(good_lines() + "report_to: none, tensorboard\n"),
                 {"report_to: found none, tensorboard"});
}

/// Sizes whose products or float32 forms would overflow, and a number of epochs that would take hours to
/// count.
TEST_F(ConfigTest, NumbersBeyondReason) {
  for (const char* line : {"lora_alpha: 1e308", "learning_rate: 1e300", "warmup_steps: 9223372036854775807",
                           "gradient_accumulation_steps: 9223372036854775807",
                           "cutoff_len: 9223372036854775807", "num_train_epochs: 1e9"}) {
    const std::string key = std::string(line).substr(0, std::string(line).find(':'));
    expect_refused(train(good_lines() + line + "\n"), {key + ": found ", "wanted a number of at most 1e+"});
  }
  expect_refused(train(good_lines() + "max_shard_size: 1e30GB\n"), {"max_shard_size: found '1e30GB'"});
}

TEST_F(ConfigTest, WhatIsShownDrivesNoTerminalAndStaysOneLine) {
  expect_refused(train(good_lines() + "lora_\x1b[31mrank: 4\n"), {"'lora_\\x1B[31mrank'"});
  expect_refused(train(good_lines() + "optim: \"a\\nb\"\n"), {"found 'a\\x0Ab'"});
  expect_refused(train(good_lines() + "lora_rank: " + std::string(100'000, '1') + "\n"), {"found '111"});
}

/// One launcher speaks for all of its ranks.
TEST_F(ConfigTest, SeveralCardsSayItOnce) {
  expect_refused(train(good_lines() + "lora_ranl: 4\n", {"--cards", "2"}), {"c.yaml:6:", "'lora_ranl'"});
}

/// Case A01 for configuration files: as Notepad saves them.
TEST_F(ConfigTest, ByteOrderMarkAndWindowsLineEnds) {
  std::string windows = "\xEF\xBB\xBF";
  for (const std::string& line : lines_of(good_lines())) windows += line + "\r\n";
  const Outcome outcome = train(windows);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_TRUE(std::filesystem::exists(shop_ / "out/adapter_model.safetensors"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("\r")));
}

TEST_F(ConfigTest, KeysThatOthersLeaveWithoutEffectAreNamed) {
  const Outcome outcome = train(good_lines() + "finetuning_type: full\nlora_rank: 4\nsgd_momentum: 0.5\n" +
                                "eval_steps: 3\nlr_scheduler_kwargs:\n  min_lr: 1e-5\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err,
              HasSubstr("warning: lora_rank changes nothing in this run (finetuning_type: full)\n"
                        "warning: sgd_momentum changes nothing in this run (optim: adamw_torch)\n"
                        "warning: eval_steps changes nothing in this run (nothing is evaluated)\n"
                        "warning: lr_scheduler_kwargs.min_lr changes nothing in this run (lr_scheduler_type: "
                        "linear)\n"));
  const Outcome plain = train(good_lines(), {"overwrite_output_dir=true"});
  EXPECT_THAT(plain.err, Not(HasSubstr("nothing in this run")));
}

/// As in LLaMA-Factory the last two layers; the other ways to train do not look at the key.
TEST_F(ConfigTest, FreezeTrainsTheLastTwoLayersUnlessToldOtherwise) {
  const auto trained = [&](const Words& more) {
    Words words{"overwrite_output_dir=true"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = train(good_lines(), words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    const Words lines = lines_with(outcome.err, "  trained ");
    return lines.size() == 1 ? lines[0] : outcome.all();
  };
  const std::string freeze = "finetuning_type=freeze", one = "freeze_trainable_layers=1";
  EXPECT_EQ(trained({freeze}), trained({freeze, "freeze_trainable_layers=2"}));
  EXPECT_NE(trained({freeze}), trained({freeze, one}));
  EXPECT_EQ(trained({"finetuning_type=lora", one}), trained({"finetuning_type=lora"}));
  EXPECT_EQ(trained({"finetuning_type=full", one}), trained({"finetuning_type=full"}));
  EXPECT_EQ(train(good_lines(), {freeze, "freeze_trainable_layers=0"}).exit_code, 2);
}

TEST_F(ConfigTest, WarmUpLongerThanTheRunAndRowsLongerThanTheModelAreWarnedOf) {
  const std::filesystem::path small = shop_ / "small";
  std::filesystem::copy(Workshop::case_file("models/tiny-llama"), small);
  std::string config = read_text_file(small / "config.json");
  const std::string key = "\"max_position_embeddings\": ";
  const size_t at = config.find(key) + key.size();
  write_file(small / "config.json", config.replace(at, config.find(',', at) - at, "16"));
  const Outcome outcome = train(good_lines() + "warmup_steps: 5\n", {"model_name_or_path=" + small.string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("warning: warmup_steps: 5 leaves none of the 1 update "),
                    HasSubstr("warning: rows have up to 47 tokens, but the model was made for 16")));
}

TEST_F(ConfigTest, KeysOfOtherTrainersThatChangeNothingAreNamed) {
  const Outcome outcome = train(good_lines() + "do_train: true\nflash_attn: fa2\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("warning: these keys change nothing here: do_train, flash_attn"));
}

}  // namespace
}  // namespace duoka::testing
