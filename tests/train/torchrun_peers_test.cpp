// SPDX-License-Identifier: Apache-2.0
// A training whose ranks torchrun starts has the losses of the command's own ranks.
#include <gtest/gtest.h>

#include "support/run_duoka.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

TEST(Torchrun, GivesTheLossesOfCards) {
  const auto torchrun = fixture("").parent_path().parent_path().parent_path() / ".deps/peers/bin/torchrun";
  if (!std::filesystem::exists(torchrun))
    GTEST_SKIP() << "no " << torchrun << "; scripts/test --peers installs it";
  const TemporaryFolder folder;
  const auto rows = write_rows(folder / "rows.jsonl", 13);
  const auto train = [&](const std::string& output) {
    return std::vector<std::string>{"train",
                                    "model_name_or_path=" + fixture("cases/models/tiny-llama").string(),
                                    "dataset=" + rows.string(),
                                    "cache_dir=" + (folder / "cache").string(),
                                    "output_dir=" + (folder / output).string(),
                                    "max_steps=12",
                                    "lora_dropout=0.1",
                                    "learning_rate=0.01",
                                    "per_device_train_batch_size=2",
                                    "logging_steps=1",
                                    "save_strategy=no",
                                    "report_to=none"};
  };
  auto cards = train("cards");
  cards.insert(cards.end(), {"--cards", "2"});
  const Outcome own = run_duoka(cards);
  ASSERT_EQ(own.exit_code, 0) << own.all();

  std::vector<std::string> words{"--standalone", "--nproc-per-node=2", "--no-python", duoka_binary()};
  const auto command = train("torchrun");
  words.insert(words.end(), command.begin(), command.end());
  const Outcome started = run_duoka(words, {.program = torchrun.string()});
  ASSERT_EQ(started.exit_code, 0) << started.all();
  EXPECT_EQ(history(folder / "torchrun", "loss").size(), 12u);
  EXPECT_EQ(history(folder / "torchrun", "loss"), history(folder / "cards", "loss"));
}

}  // namespace
}  // namespace duoka::testing
