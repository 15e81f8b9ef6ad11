// SPDX-License-Identifier: Apache-2.0
// Files that a run reads and writes: saving that fails (F05), hostile and incomplete model files (F06, F08),
// and whose folder output_dir is.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class FilesTest : public ::testing::Test {
 protected:
  Outcome train(const Words& more, RunOptions options = {}) const {
    return run_duoka(shop_.train("out", more), std::move(options));
  }

  Workshop shop_;
};

const Words steady{"lr_scheduler_type=constant", "learning_rate=1e-3", "finetuning_type=full",
                   "save_strategy=steps", "save_steps=2"};

Words steady_and(const Words& more) {
  Words words = steady;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(FilesTest, F05FailedSaveNamesPathAndReasonAndLeavesTheLastCheckpointWhole) {
  const Outcome whole = run_duoka(shop_.train("whole", steady_and({"max_steps=6"})));
  ASSERT_EQ(whole.exit_code, 0) << whole.all();
  ASSERT_EQ(train(steady_and({"max_steps=2"})).exit_code, 0);

  const Words go_on = steady_and({"max_steps=6", "resume_from_checkpoint=true", "save_total_limit=1"});
  const Outcome failed = train(go_on, {.file_size_limit = 20'000});
  SCOPED_TRACE(failed.all());
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_THAT(failed.err,
              AllOf(HasSubstr("error: SystemError: "), HasSubstr((shop_ / "out").string()),
                    HasSubstr("checkpoint-4"), HasSubstr("File too large"), HasSubstr("ulimit -f")));
  EXPECT_THAT(names_in(shop_ / "out", "checkpoint-"), ElementsAre("checkpoint-2"));
  EXPECT_THAT(names_in(shop_ / "out", "."), SizeIs(0)) << "half a checkpoint is left";

  const Outcome resumed = train(go_on);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  const auto expected = printed_losses(whole.err);
  EXPECT_EQ(printed_losses(resumed.err), std::vector<std::string>(expected.begin() + 2, expected.end()));
  EXPECT_THAT(names_in(shop_ / "out", "checkpoint-"), ElementsAre("checkpoint-6"));
}

TEST_F(FilesTest, F05FailedSaveOfOneRankEndsAllOfThem) {
  Words words = shop_.train("out", steady_and({"max_steps=4"}));
  words.insert(words.end(), {"--cards", "2"});
  const Outcome failed = run_duoka(words, {.file_size_limit = 20'000});
  EXPECT_EQ(failed.exit_code, 7) << failed.all();
  EXPECT_EQ(count_of(failed.err, "error: "), 1) << failed.all();
  EXPECT_THAT(failed.err, HasSubstr("File too large"));
}

TEST_F(FilesTest, F05KeepsAsManyCheckpointsAsAsked) {
  ASSERT_EQ(train({"max_steps=12", "save_steps=2", "save_total_limit=1"}).exit_code, 0);
  EXPECT_THAT(names_in(shop_ / "out", "checkpoint-"), ElementsAre("checkpoint-12"));
  ASSERT_EQ(
      train({"max_steps=12", "save_steps=2", "save_total_limit=2", "overwrite_output_dir=true"}).exit_code,
      0);
  EXPECT_THAT(names_in(shop_ / "out", "checkpoint-"), ElementsAre("checkpoint-10", "checkpoint-12"));
  ASSERT_EQ(train({"max_steps=12", "save_steps=2", "overwrite_output_dir=true"}).exit_code, 0);
  EXPECT_THAT(names_in(shop_ / "out", "checkpoint-"), SizeIs(6));
}

TEST_F(FilesTest, F05FolderThatCannotBeWrittenIsAnErrorBeforeTheFirstUpdate) {
  write_file(shop_ / "file", "");
  for (const char* place : {"file", "file/below", "/proc/duoka"}) {
    const std::string path = place[0] == '/' ? place : (shop_ / place).string();
    const Outcome outcome = train({"max_steps=2", "output_dir=" + path});
    EXPECT_EQ(outcome.exit_code, 7) << outcome.all();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("output_dir " + path), HasSubstr("choose another output_dir")));
    EXPECT_THAT(printed_losses(outcome.err), SizeIs(0));
  }
}

/// A copy of the model (or adapter) folder `from` whose weights are `weights`.
fs::path with_weights(const fs::path& from, const fs::path& to, const std::string& name,
                      const fs::path& weights) {
  fs::copy(from, to, fs::copy_options::recursive);
  fs::copy_file(weights, to / name, fs::copy_options::overwrite_existing);
  return to;
}

TEST_F(FilesTest, F06HostileSafetensorsAreRefusedWithFileAndReason) {
  const fs::path row = shop_.check_row();
  const fs::path model = Workshop::case_file("models/tiny-llama");
  const Outcome good = run_duoka(shop_.eval(model, row));
  ASSERT_EQ(good.exit_code, 0) << good.all();
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(Workshop::case_file("F06_safetensors"))) {
    if (entry.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(entry.path());
    const std::string stem = entry.path().stem();
    const fs::path as_model = with_weights(model, shop_ / ("m-" + stem), "model.safetensors", entry.path());
    const fs::path as_adapter = with_weights(Workshop::case_file("G01_adapter"), shop_ / ("a-" + stem),
                                             "adapter_model.safetensors", entry.path());
    Running first(shop_.eval(as_model, row));
    Running second(shop_.eval(model, row, {"adapter_name_or_path=" + as_adapter.string()}));
    for (auto& [running, folder] : {std::pair{&first, as_model}, std::pair{&second, as_adapter}}) {
      const Outcome outcome = running->wait();
      EXPECT_EQ(outcome.exit_code, 4) << outcome.all();
      EXPECT_THAT(lines_with(outcome.err, "error: FormatError: "), SizeIs(1)) << outcome.all();
      EXPECT_THAT(lines_with(outcome.err, "error: ").at(0), HasSubstr(folder.string()));
      EXPECT_EQ(outcome.err.rfind("error: "), outcome.err.rfind('\n', outcome.err.size() - 2) + 1)
          << "the reason takes more than one line\n"
          << outcome.err;
      EXPECT_LT(outcome.cpu_seconds, good.cpu_seconds + 2);
      EXPECT_LT(outcome.peak_bytes, good.peak_bytes + (int64_t{200} << 20));
    }
    ++num_files;
  }
  EXPECT_EQ(num_files, 23);
}

class F08Folders : public FilesTest {
 protected:
  void SetUp() override {
    if (find_program("python3").empty()) GTEST_SKIP() << "python3, which makes the folders, is not installed";
    const Outcome made =
        run_duoka({Workshop::case_file("F08_make_folders.py").string(), (shop_ / "f08").string()},
                  {.program = "python3"});
    ASSERT_EQ(made.exit_code, 0) << made.all();
    row_ = shop_.check_row();
  }
  Outcome eval(const std::string& folder) const {
    return run_duoka(shop_.eval(shop_ / "f08" / folder, row_));
  }

  fs::path row_;
};

TEST_F(F08Folders, WholeOnesLoad) {
  for (const char* folder : {"ok_sharded_tied", "tied_but_index_lists_lm_head", "shards_without_index"}) {
    const Outcome outcome = eval(folder);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_NEAR(nlohmann::json::parse(outcome.out).at("eval_loss").get<double>(), 8.632108, 1e-5) << folder;
  }
}

TEST_F(F08Folders, BrokenOnesNameWhatIsMissing) {
  for (const auto& [folder, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {"missing_shard", "model-00002-of-00002.safetensors is missing"},
           {"index_names_unknown_file", "model-00003-of-00002.safetensors is missing"},
           {"untied_without_lm_head", "no tensor lm_head.weight"},
           {"stale_single_file_beside_shards", "both model.safetensors and model.safetensors.index.json"},
           {"escape_path_in_index", "may not hold a path separator"}}) {
    const Outcome outcome = eval(folder);
    EXPECT_EQ(outcome.exit_code, 4) << outcome.all();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("error: FormatError: "), HasSubstr(named)));
    EXPECT_EQ(outcome.out, "") << "no loss of a model that is not whole";
  }
}

TEST_F(FilesTest, FolderOfAnEarlierRunIsNotWrittenOver) {
  ASSERT_EQ(train({"max_steps=2", "save_steps=1"}).exit_code, 0);
  const std::string adapter = read_text_file(shop_ / "out/adapter_model.safetensors");
  const Outcome refused = train({"max_steps=1"});
  EXPECT_EQ(refused.exit_code, 2) << refused.all();
  EXPECT_THAT(refused.err, AllOf(HasSubstr("holds an earlier run"), HasSubstr("resume_from_checkpoint"),
                                 HasSubstr("overwrite_output_dir")));
  EXPECT_EQ(read_text_file(shop_ / "out/adapter_model.safetensors"), adapter);
}

TEST_F(FilesTest, ResumeFalseIsNotResume) {
  ASSERT_EQ(train({"max_steps=2"}).exit_code, 0);
  const Outcome refused = train({"max_steps=1", "resume_from_checkpoint=False"});
  EXPECT_EQ(refused.exit_code, 2) << refused.all();
  EXPECT_THAT(refused.err, HasSubstr("holds an earlier run"));
  ASSERT_EQ(train({"max_steps=1", "resume_from_checkpoint=false", "overwrite_output_dir=true"}).exit_code, 0);
  EXPECT_EQ(names_in(shop_ / "out", "checkpoint-"), (std::set<std::string>{"checkpoint-1"}));
  const Outcome resumed = train({"max_steps=2", "resume_from_checkpoint=yes"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_THAT(resumed.err, HasSubstr("checkpoint-1 after step 1"));
}

TEST_F(FilesTest, ResumeOfOtherLayersNamesTheCheckpoint) {
  const auto layers = [&](const char* count, const Words& more) {
    Words words{"finetuning_type=freeze", std::string("freeze_trainable_layers=") + count};
    words.insert(words.end(), more.begin(), more.end());
    return train(words);
  };
  const std::string checkpoint = (shop_ / "out" / "checkpoint-2").string();
  for (const bool has_more : {false, true}) {
    ASSERT_EQ(layers(has_more ? "2" : "1", {"max_steps=2", "overwrite_output_dir=true"}).exit_code, 0);
    const Outcome refused = layers(has_more ? "1" : "2", {"max_steps=4", "resume_from_checkpoint=true"});
    EXPECT_EQ(refused.exit_code, 4) << refused.all();
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr(checkpoint + (has_more ? " also holds model.layers.0." : " has ")),
                      HasSubstr("selection of"), HasSubstr("model.layers.0.")));
  }
}

TEST_F(FilesTest, ResumeSaysWhichFoldersArePassedOver) {
  ASSERT_EQ(train(steady_and({"max_steps=4"})).exit_code, 0);
  fs::remove(shop_ / "out" / "checkpoint-4" / "manifest.json");
  const Outcome resumed = train(steady_and({"max_steps=4", "resume_from_checkpoint=true"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  const std::string passed_over = (shop_ / "out" / "checkpoint-4").string() + " has no manifest.json";
  EXPECT_EQ(count_of(resumed.err, "warning: " + passed_over), 1) << resumed.all();
  EXPECT_THAT(resumed.err, HasSubstr("checkpoint-2 after step 2"));
}

TEST_F(FilesTest, ResumeWithoutACheckpointIsRefused) {
  const Outcome nothing = train({"max_steps=1", "resume_from_checkpoint=true"});
  EXPECT_EQ(nothing.exit_code, 2) << nothing.all();
  EXPECT_THAT(nothing.err, HasSubstr("holds no complete checkpoint"));
  const Outcome elsewhere = train({"max_steps=1", "resume_from_checkpoint=/no/such/checkpoint-1"});
  EXPECT_EQ(elsewhere.exit_code, 2) << elsewhere.all();
  EXPECT_THAT(elsewhere.err, HasSubstr("there is no folder '/no/such/checkpoint-1'"));
}

/// Seven rows two at a time, then four at a time: update 3 ends at row 6, where no update of two ranks ends.
TEST_F(FilesTest, MoreCardsGoOnInTheSameEpoch) {
  const Words words{"per_device_train_batch_size=2", "num_train_epochs=2", "save_steps=1",
                    "log_row_ids=true"};
  const auto and_more = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  ASSERT_EQ(train(and_more({"max_steps=3"})).exit_code, 0);
  const Outcome resumed = train(and_more({"resume_from_checkpoint=true", "--cards", "2"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_THAT(resumed.err,
              AllOf(HasSubstr("warning: resuming with another setting: cards: 1 in the checkpoint, 2 now"),
                    HasSubstr("rows_per_update: 2 in the checkpoint, 4 now"),
                    HasSubstr("2 rows of epoch 0 are trained on twice"),
                    HasSubstr("step=4 total=6 epoch=1.000 "), HasSubstr("step=6 total=6 epoch=2.000 ")));
}

TEST_F(FilesTest, DamagedNewestCheckpointIsSaid) {
  ASSERT_EQ(train({"max_steps=3", "save_steps=1"}).exit_code, 0);
  fs::resize_file(shop_ / "out/checkpoint-3/adapter_model.safetensors", 100);
  const Outcome resumed = train({"max_steps=3", "resume_from_checkpoint=true"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_THAT(resumed.err,
              AllOf(HasSubstr("checkpoint-3 is damaged"), HasSubstr("checkpoint-2 after step 2")));
}

/// Bytes that went bad on the disk: the sizes are right, the checksums are not.
TEST_F(FilesTest, CheckpointsWithWrongChecksumsArePassedOver) {
  ASSERT_EQ(train({"max_steps=3", "save_steps=1"}).exit_code, 0);
  const auto spoil = [&](const std::string& checkpoint) {
    const std::string state = *names_in(shop_ / "out" / checkpoint, "state-").begin();
    std::string bytes = read_text_file(shop_ / "out" / checkpoint / state);
    ++bytes.back();
    write_file(shop_ / "out" / checkpoint / state, bytes);
  };
  spoil("checkpoint-3");
  fs::resize_file(shop_ / "out/checkpoint-2/adapter_model.safetensors", 100);
  const Words go_on{"max_steps=4", "resume_from_checkpoint=true", "--cards", "2"};
  const Outcome resumed = train(go_on);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_THAT(
      resumed.err,
      AllOf(HasSubstr("checkpoint-3 is damaged, going on from "), HasSubstr("checksum differs"),
            HasSubstr("checkpoint-2 is damaged, going on from "), HasSubstr("checkpoint-1 after step 1")));
  EXPECT_EQ(count_of(resumed.err, "is damaged"), 2) << resumed.all();

  for (const std::string& name : names_in(shop_ / "out", "checkpoint-")) spoil(name);
  const Outcome refused = train({"max_steps=5", "resume_from_checkpoint=true"});
  EXPECT_EQ(refused.exit_code, 4) << refused.all();
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("no checkpoint in "), HasSubstr("is whole: "), HasSubstr("checksum differs")));
}

TEST_F(FilesTest, CheckpointsOfACourseThatWasLeftAreSaid) {
  ASSERT_EQ(train({"max_steps=3", "save_steps=1"}).exit_code, 0);
  const Outcome resumed =
      train({"max_steps=2", "resume_from_checkpoint=" + (shop_ / "out/checkpoint-1").string()});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_THAT(resumed.err, HasSubstr("checkpoint-3 is later than where this run goes on from"));
}

TEST_F(FilesTest, NothingLeftToTrainIsSaidAndTheResultsStay) {
  ASSERT_EQ(train({"max_steps=3"}).exit_code, 0);
  const std::string results = read_text_file(shop_ / "out/train_results.json");
  for (const char* max_steps : {"max_steps=3", "max_steps=2"}) {
    const Outcome resumed = train({max_steps, "resume_from_checkpoint=true"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
    EXPECT_THAT(resumed.err, HasSubstr("nothing was left to train: the checkpoint is at update 3 already"));
    EXPECT_EQ(read_text_file(shop_ / "out/train_results.json"), results);
    EXPECT_THAT(read_text_file(shop_ / "out/all_results.json"), Not(HasSubstr("\"train_loss\": 0.0")));
  }
}

TEST_F(FilesTest, HalvesThatAKilledRunLeftAreRemovedAndNothingElse) {
  ASSERT_EQ(train({"max_steps=2", "save_steps=1"}).exit_code, 0);
  for (const char* name : {".checkpoint-7.partial", ".checkpoint-1.new", "..checkpoint-1.new.partial",
                           ".checkpoint-2.replaced", ".checkpoint-5.removed"})
    fs::create_directories(shop_ / "out" / name / "inside");
  for (const char* name : {".adapter_model.safetensors.123.partial", ".trainer_state.json.4.partial"})
    write_file(shop_ / "out" / name, "half");
  const std::set<std::string> kept{".checkpoint-9.new", ".checkpoint-9.replaced", ".mine.partial", ".git",
                                   "..."};
  for (const std::string& name : kept) write_file(shop_ / "out" / name, "whole");
  ASSERT_EQ(train({"max_steps=3", "resume_from_checkpoint=true"}).exit_code, 0);
  EXPECT_EQ(names_in(shop_ / "out", "."), kept);
}

TEST_F(FilesTest, ResumedRunAppendsToTheLog) {
  ASSERT_EQ(train({"max_steps=2"}).exit_code, 0);
  const Outcome resumed = train({"max_steps=4", "resume_from_checkpoint=true"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("resumed from"),
                                 HasSubstr("another setting: total_steps: 2 in the checkpoint, 4 now")));
  const auto lines = lines_of(read_text_file(shop_ / "out/trainer_log.jsonl"));
  ASSERT_THAT(lines, SizeIs(4));
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_THAT(lines[i], HasSubstr("\"current_steps\":" + std::to_string(i + 1) + ","));
}

}  // namespace
}  // namespace duoka::testing
