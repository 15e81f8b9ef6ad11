// SPDX-License-Identifier: Apache-2.0
// Case F01 through the command: a training that is killed or stopped, and gone on with, gives the bits of one
// that was never stopped.
#include <csignal>
#include <string>

#include <gmock/gmock.h>

#include "duoka/train/checkpoint.h"
#include "support/run_duoka.h"
#include "train/small_training.h"

namespace duoka::testing {
namespace {

using Words = std::vector<std::string>;

/// LoRA with dropout on two ranks, shuffled and packed: everything a resume has to bring back.
class StoppedTraining : public ::testing::Test {
 protected:
  Words train(const std::string& output, int64_t max_steps, const Words& more = {}) const {
    Words words{"train",
                "model_name_or_path=" + fixture("cases/models/tiny-llama").string(),
                "dataset=" + rows_.string(),
                "cache_dir=" + (folder_ / "cache").string(),
                "output_dir=" + (folder_ / output).string(),
                "max_steps=" + std::to_string(max_steps),
                "lr_scheduler_type=constant",
                "learning_rate=0.01",
                "lora_dropout=0.1",
                "packing=true",
                "cutoff_len=64",
                "per_device_train_batch_size=1",
                "logging_steps=1",
                "save_steps=3",
                "save_total_limit=2",
                "report_to=none",
                "--cards",
                "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Resumes "out" for a few more updates and compares all losses with those of a run of its own.
  void expect_goes_on_as_if_never_stopped() {
    const auto checkpoint = train::find_last_checkpoint(folder_ / "out");
    ASSERT_TRUE(checkpoint);
    const int64_t done =
        std::stoll(checkpoint->filename().string().substr(std::string("checkpoint-").size()));
    const int64_t steps = done + 7;
    const Outcome resumed = run_duoka(train("out", steps, {"resume_from_checkpoint=true"}));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
    EXPECT_THAT(resumed.err, ::testing::HasSubstr("after step " + std::to_string(done)));
    const Outcome whole = run_duoka(train("whole", steps));
    ASSERT_EQ(whole.exit_code, 0) << whole.all();
    for (const char* value : {"loss", "grad_norm"}) {
      const auto found = history(folder_ / "out", value);
      EXPECT_EQ(found.size(), static_cast<size_t>(steps));
      EXPECT_EQ(found, history(folder_ / "whole", value)) << value;
    }
    EXPECT_EQ(read_bytes("out"), read_bytes("whole"));
    EXPECT_EQ(read_lines(folder_ / "out/trainer_log.jsonl").size(), static_cast<size_t>(steps));
  }

  std::string read_bytes(const std::string& output) const {
    std::ifstream in(folder_ / output / "adapter_model.safetensors", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder_;
  std::filesystem::path rows_ = write_rows(folder_ / "rows.jsonl", 20);
};

constexpr int64_t endless = 1'000'000;

TEST_F(StoppedTraining, KilledRunGoesOn) {
  {
    Running running(train("out", endless));
    ASSERT_TRUE(running.wait_for_text("step=8 ")) << running.err();
    const auto ranks = running.children();
    running.send(SIGKILL);
    for (const pid_t rank : ranks) ::kill(rank, SIGKILL);  // as when power fails
    EXPECT_EQ(running.wait().exit_code, 128 + SIGKILL);
  }
  expect_goes_on_as_if_never_stopped();
}

TEST_F(StoppedTraining, TerminatedRunSavesWhereItIsAndGoesOn) {
  {
    Running running(train("out", endless));
    ASSERT_TRUE(running.wait_for_text("step=4 ")) << running.err();
    running.send(SIGTERM);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.all();
    EXPECT_THAT(outcome.err, ::testing::HasSubstr("stopped by signal 15 after update "));
  }
  expect_goes_on_as_if_never_stopped();
}

}  // namespace
}  // namespace duoka::testing
