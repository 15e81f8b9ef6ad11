// SPDX-License-Identifier: Apache-2.0
// `duoka train` with state and activations in a file: the same result, and nothing left of the file.
#include <csignal>

#include <gmock/gmock.h>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class OffloadTest : public ::testing::Test {
 protected:
  static Words join(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words train(const std::string& output, const Words& more) const {
    return shop_.train(output, join({"finetuning_type=full", "learning_rate=1e-3", "bf16=true",
                                     "save_steps=2", "per_device_train_batch_size=3"},
                                    more));
  }

  Workshop shop_;
  const Words offload_{"offload_optimizer=true", "offload_activations=true"};
};

TEST_F(OffloadTest, GivesTheSameFilesAndLeavesNone) {
  for (const Words& cards : {Words{}, Words{"zero_stage=3", "--cards", "2"}}) {
    const Words words = join({"max_steps=3", "overwrite_output_dir=true"}, cards);
    const Outcome in_memory = run_duoka(train("in", words));
    ASSERT_EQ(in_memory.exit_code, 0) << in_memory.all();
    const Outcome out = run_duoka(train("out", join(words, offload_)));
    ASSERT_EQ(out.exit_code, 0) << out.all();
    EXPECT_EQ(printed_losses(out.err), printed_losses(in_memory.err));
    for (const char* name : {"model.safetensors", "config.json"})
      EXPECT_TRUE(read_text_file(shop_ / "out" / name) == read_text_file(shop_ / "in" / name)) << name;
    for (const auto& name : names_in(shop_ / "in/checkpoint-2", "state-"))
      EXPECT_TRUE(read_text_file(shop_ / "out/checkpoint-2" / name) ==
                  read_text_file(shop_ / "in/checkpoint-2" / name))
          << name;
    EXPECT_EQ(names_in(shop_ / "out"), names_in(shop_ / "in"));
    EXPECT_THAT(out.err, HasSubstr("offloaded   optimizer, activations, to a file in "));
    EXPECT_THAT(in_memory.err, ::testing::Not(HasSubstr("offloaded")));
  }
}

TEST_F(OffloadTest, AKilledRunLeavesNoFile) {
  Running running(
      train("out", join(offload_, {"max_steps=100000", "save_strategy=no",
                                   "offload_folder=" + (shop_ / "disk").string(), "--cards", "2"})));
  ASSERT_TRUE(running.wait_for_text("step=3 ")) << running.err();
  for (const pid_t rank : running.children()) ::kill(rank, SIGKILL);
  EXPECT_NE(running.wait().exit_code, 0);
  EXPECT_THAT(names_in(shop_ / "disk"), IsEmpty());
  EXPECT_THAT(names_in(shop_ / "out", "."), IsEmpty());
}

TEST_F(OffloadTest, AFullDiskIsOneLineAndTheLastCheckpointStaysWhole) {
  const Words steady{"lr_scheduler_type=constant", "max_steps=4"};
  const Outcome whole = run_duoka(train("whole", steady));
  ASSERT_EQ(whole.exit_code, 0) << whole.all();
  ASSERT_EQ(run_duoka(train("out", {"lr_scheduler_type=constant", "max_steps=2"})).exit_code, 0);
  const Words go_on = join(steady, {"resume_from_checkpoint=true"});
  for (const std::string& what : offload_)
    for (const Words& cards : {Words{}, Words{"--cards", "2"}}) {
      const Outcome failed =
          run_duoka(train("out", join(join(go_on, {what}), cards)), {.file_size_limit = 10'000});
      SCOPED_TRACE(failed.all());
      EXPECT_EQ(failed.exit_code, 7);
      EXPECT_THAT(lines_with(failed.err, "error: "), SizeIs(1));
      EXPECT_THAT(lines_with(failed.err, "error: "),
                  Each(AllOf(HasSubstr("cannot write offloaded tensors in " + (shop_ / "out").string()),
                             HasSubstr("File too large"), HasSubstr("ulimit -f"))));
      EXPECT_THAT(names_in(shop_ / "out", "."), IsEmpty());
      EXPECT_THAT(names_in(shop_ / "out", "checkpoint-"), ::testing::ElementsAre("checkpoint-2"));
    }
  const Outcome resumed = run_duoka(train("out", join(go_on, offload_)));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_TRUE(read_text_file(shop_ / "out/model.safetensors") ==
              read_text_file(shop_ / "whole/model.safetensors"));
}

TEST_F(OffloadTest, AFolderThatCannotBeWrittenIsRefusedBeforeAnythingIsLoaded) {
  write_file(shop_ / "file", "");
  for (const std::string& place : {(shop_ / "file").string(), (shop_ / "file/below").string()}) {
    const Outcome outcome = run_duoka(train("out", join(offload_, {"offload_folder=" + place})));
    SCOPED_TRACE(outcome.all());
    EXPECT_EQ(outcome.exit_code, 7);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("offload_folder " + place), HasSubstr("choose another offload_folder")));
    EXPECT_FALSE(std::filesystem::exists(shop_ / "out"));
  }
  const Outcome home = run_duoka(train("out", join(offload_, {"offload_folder=~/x"})));
  EXPECT_EQ(home.exit_code, 2) << home.all();
  EXPECT_THAT(home.err, HasSubstr("offload_folder"));
}

TEST_F(OffloadTest, AFolderForNothingIsNamedInAWarning) {
  const Outcome outcome =
      run_duoka(train("out", {"max_steps=1", "offload_folder=" + (shop_ / "disk").string()}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("offload_folder changes nothing in this run (nothing is offloaded)"));
  EXPECT_FALSE(std::filesystem::exists(shop_ / "disk"));
}

}  // namespace
}  // namespace duoka::testing
