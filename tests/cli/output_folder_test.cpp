// SPDX-License-Identifier: Apache-2.0
// Whose folder output_dir and export_dir are: what may be written over, and what is left alone.
#include <set>

#include <gmock/gmock.h>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class OutputFolderTest : public ::testing::Test {
 protected:
  Outcome train(const Words& more) const { return run_duoka(shop_.train("out", more)); }
  /// A copy of tiny-llama that a test may lose.
  fs::path model_copy(const std::string& name) const {
    fs::copy(Workshop::case_file("models/tiny-llama"), shop_ / name, fs::copy_options::recursive);
    return shop_ / name;
  }
  /// Refused in one line with all of `parts`, before the data is read.
  static void expect_refused(const Outcome& outcome, int exit_code, const Words& parts) {
    SCOPED_TRACE(outcome.all());
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_THAT(lines_of(outcome.err), SizeIs(1));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  }

  Workshop shop_;
};

TEST_F(OutputFolderTest, OverwritingRemovesTheEarlierRunAndKeepsOtherFiles) {
  ASSERT_EQ(train({"max_steps=3", "save_steps=1", "val_size=1", "finetuning_type=full"}).exit_code, 0);
  for (const char* mine :
       {"notes.txt", "checkpoint-mine/a", "checkpoint-7/a", "runs/mine/a", "runs/other.0"}) {
    fs::create_directories((shop_ / "out" / mine).parent_path());
    write_file(shop_ / "out" / mine, "mine");
  }
  const Outcome again = train({"max_steps=1", "overwrite_output_dir=true"});
  ASSERT_EQ(again.exit_code, 0) << again.all();
  EXPECT_THAT(names_in(shop_ / "out", "checkpoint-"),
              ElementsAre("checkpoint-1", "checkpoint-7", "checkpoint-mine"));
  for (const char* mine : {"notes.txt", "checkpoint-mine/a", "checkpoint-7/a", "runs/mine/a", "runs/other.0"})
    EXPECT_TRUE(fs::exists(shop_ / "out" / mine)) << mine;
  EXPECT_THAT(names_in(shop_ / "out/runs", "events."), SizeIs(1));
  EXPECT_THAT(lines_of(read_text_file(shop_ / "out/trainer_log.jsonl")), SizeIs(1));
  EXPECT_TRUE(fs::exists(shop_ / "out/adapter_model.safetensors"));
  // Of the earlier run, which trained the whole model and evaluated it.
  EXPECT_FALSE(fs::exists(shop_ / "out/model.safetensors"));
  EXPECT_FALSE(fs::exists(shop_ / "out/eval_results.json"));
  EXPECT_EQ(read_text_file(shop_ / "out/all_results.json").find("eval_loss"), std::string::npos);
}

TEST_F(OutputFolderTest, TheModelItStartsFromIsNotWrittenOver) {
  const fs::path model = model_copy("model");
  for (const char* type : {"finetuning_type=full", "finetuning_type=lora"})
    expect_refused(train({"model_name_or_path=" + model.string(), "output_dir=" + model.string() + "/", type,
                          "overwrite_output_dir=true"}),
                   2, {"output_dir: " + model.string(), "holds model_name_or_path", "choose another"});
  EXPECT_EQ(names_in(model), names_in(Workshop::case_file("models/tiny-llama")));
}

TEST_F(OutputFolderTest, TheAdapterItGoesOnFromIsNotWrittenOver) {
  ASSERT_EQ(train({"max_steps=1"}).exit_code, 0);
  for (const char* folder : {"out", "out/checkpoint-1"})
    expect_refused(train({"max_steps=1", "adapter_name_or_path=" + (shop_ / folder).string(),
                          "overwrite_output_dir=true"}),
                   2, {"holds adapter_name_or_path"});
}

TEST_F(OutputFolderTest, WeightsThatNoRunLeftAreNotWrittenOver) {
  const fs::path other = model_copy("out");
  const std::string weights = read_text_file(other / "model.safetensors");
  for (const char* flag : {"overwrite_output_dir=false", "overwrite_output_dir=true"})
    expect_refused(train({"max_steps=1", "finetuning_type=full", flag}), 2,
                   {"output_dir: " + other.string(), "model.safetensors", "choose another"});
  EXPECT_EQ(read_text_file(other / "model.safetensors"), weights);
}

TEST_F(OutputFolderTest, FolderThatCannotBeMadeIsAnErrorBeforeAnythingIsRead) {
  write_file(shop_ / "file", "");
  fs::create_symlink("loop", shop_ / "loop");
  fs::create_symlink("nowhere", shop_ / "dangling");
  for (const char* place : {"file", "file/below", "loop", "loop/below"}) {
    const std::string path = (shop_ / place).string();
    expect_refused(train({"output_dir=" + path}), 7,
                   {"error: SystemError: cannot make output_dir " + path, "choose another output_dir"});
  }
  expect_refused(train({"output_dir=" + (shop_ / std::string(300, 'a')).string()}), 7, {"too long"});
  expect_refused(train({"output_dir=~/runs"}), 2, {"output_dir: found '~/runs'", "not expanded"});
  EXPECT_FALSE(fs::exists("~"));
}

TEST_F(OutputFolderTest, FolderThatHoldsMoreThanAModelIsNotReplacedByAnExport) {
  const fs::path target = model_copy("target");
  const auto export_to_target = [&](const Words& more) {
    Words words{"export", Workshop::model_word(), "export_dir=" + target.string(),
                "overwrite_export_dir=true"};
    words.insert(words.end(), more.begin(), more.end());
    return run_duoka(words);
  };
  for (const char* mine : {"thesis.txt", "adapter_config.json", "checkpoint-2/a"}) {
    fs::create_directories((target / mine).parent_path());
    write_file(target / mine, "mine");
    const std::string name = std::string(mine).substr(0, std::string(mine).find('/'));
    expect_refused(export_to_target({}), 2, {"holds more than a model (" + name + ")"});
    EXPECT_EQ(read_text_file(target / mine), "mine");
    fs::remove_all(target / name);
  }
  fs::copy(Workshop::case_file("models/tiny-llama"), target / "base");
  expect_refused(export_to_target({"model_name_or_path=" + (target / "base").string()}), 2,
                 {"holds more than a model (base)"});
  fs::remove_all(target / "base");
  const Outcome replaced = export_to_target({});
  EXPECT_EQ(replaced.exit_code, 0) << replaced.all();
}

}  // namespace
}  // namespace duoka::testing
