// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "duoka/comm/group.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/train/optimizer.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

/// Rows [begin, end) of a matrix called "w" as this rank's only slot, with AdamW's state.
struct Rows {
  Parameter parameter;
  std::vector<Slot> slots;

  Rows(const at::Tensor& whole, int64_t begin, int64_t end, bool is_primary = true) {
    parameter = Parameter::whole("w", whole, true);
    Slot slot;
    slot.parameter = &parameter;
    slot.offset = {begin, 0};
    slot.master = whole.slice(0, begin, end).contiguous();
    slot.grad = at::ones_like(slot.master);
    slot.is_primary = is_primary;
    slots.push_back(std::move(slot));
    make_adamw({})->prepare(slots);
  }
  Rows(const Rows&) = delete;
};

at::Tensor numbers() { return at::arange(12, at::kFloat).view({4, 3}); }

RunState state_at(int64_t step) {
  RunState state;
  state.step = step;
  state.optimizer = "adamw";
  state.trainer.global_step = step;
  return state;
}

class CheckpointTest : public ::testing::Test {
 protected:
  testing::TemporaryFolder out_;
  comm::Group solo_;
  Rows rows_{numbers(), 0, 4};

  fs::path save(int64_t step, const SaveOptions& options = {}) {
    return save_checkpoint(out_.path(), rows_.slots, state_at(step), solo_, options);
  }
};

TEST_F(CheckpointTest, GivesBackTensorsAndState) {
  make_adamw({})->step(rows_.slots, 0.1);
  RunState state = state_at(7);
  state.epoch = 2;
  state.rows_in_epoch = 3;
  state.tokens_seen = int64_t{1} << 40;
  state.seed = ~uint64_t{0} >> 1;
  state.schedule_state = {{"rate", 0.1}};
  state.settings = {{"learning_rate", "0.1"}};
  state.trainer.best_metric = 1.5;
  state.trainer.log_history = {{7, 0.5, {{"loss", 2.25}}}};
  const fs::path folder = save_checkpoint(out_.path(), rows_.slots, state, solo_);
  EXPECT_EQ(folder, out_ / "checkpoint-7");
  EXPECT_THAT(testing::names_in(folder),
              ElementsAre("manifest.json", "run_state.json", "state-00000-of-00001.safetensors",
                          "trainer_state.json"));

  Rows other(at::zeros({4, 3}), 0, 4);
  const RunState found = load_checkpoint(folder, other.slots, solo_);
  EXPECT_TRUE(at::equal(other.slots[0].master, rows_.slots[0].master));
  for (const auto& [name, tensor] : rows_.slots[0].state)
    EXPECT_TRUE(at::equal(other.slots[0].state.at(name), tensor)) << name;
  EXPECT_EQ(found.step, 7);
  EXPECT_EQ(found.epoch, 2);
  EXPECT_EQ(found.rows_in_epoch, 3);
  EXPECT_EQ(found.tokens_seen, state.tokens_seen);
  EXPECT_EQ(found.seed, state.seed);
  EXPECT_EQ(found.schedule_state, state.schedule_state);
  EXPECT_EQ(found.settings, state.settings);
  EXPECT_EQ(found.trainer.best_metric, 1.5);
  EXPECT_EQ(found.trainer.log_history[0].find("loss"), 2.25);
}

TEST_F(CheckpointTest, IsReadAtAnyLayout) {
  const at::Tensor whole = numbers();
  // Written by three ranks that hold 1, 2 and 1 rows; the replica on a fourth is not written.
  test::run_ranks(4, [&](const comm::Group& group) {
    const int64_t begins[] = {0, 1, 3, 3}, ends[] = {1, 3, 4, 4};
    Rows mine(whole, begins[group.rank()], ends[group.rank()], group.rank() != 3);
    mine.slots[0].state["exp_avg"].copy_(mine.slots[0].master * 2);
    save_checkpoint(out_.path(), mine.slots, state_at(1), group);
  });
  EXPECT_FALSE(fs::exists(out_ / "checkpoint-1/state-00003-of-00004.safetensors"));
  for (const int num_ranks : {1, 2}) {
    test::run_ranks(num_ranks, [&](const comm::Group& group) {
      const int64_t size = 4 / num_ranks, begin = size * group.rank();
      Rows mine(at::zeros({4, 3}), begin, begin + size);
      load_checkpoint(out_ / "checkpoint-1", mine.slots, group);
      EXPECT_TRUE(at::equal(mine.slots[0].master, whole.slice(0, begin, begin + size)));
      EXPECT_TRUE(at::equal(mine.slots[0].state["exp_avg"], whole.slice(0, begin, begin + size) * 2));
    });
  }
}

TEST_F(CheckpointTest, RefusesWhatDoesNotFit) {
  const fs::path folder = save(1);
  const auto refusal = [&](Rows& rows) {
    return message_of<FormatError>([&] { load_checkpoint(folder, rows.slots, solo_); });
  };
  Rows larger(at::zeros({5, 3}), 0, 5);
  EXPECT_THAT(refusal(larger), HasSubstr("w has shape [4, 3] in the checkpoint and [5, 3] in this run"));
  Rows renamed(numbers(), 0, 4);
  renamed.parameter.name = "v";
  EXPECT_THAT(refusal(renamed), HasSubstr("also holds w/exp_avg and 3 more entries"));
  Rows plain(numbers(), 0, 4);
  plain.slots[0].state.clear();  // SGD
  EXPECT_THAT(refusal(plain), HasSubstr("w/exp_avg"));
  Rows momentum(numbers(), 0, 4);
  momentum.slots[0].state["momentum_buffer"] = at::zeros({4, 3});
  EXPECT_THAT(refusal(momentum), HasSubstr("has 0 elements for the 12 of w/momentum_buffer"));
  Rows wide(numbers().to(at::kDouble), 0, 4);
  EXPECT_THAT(refusal(wide), HasSubstr("w/master is F32; this run keeps it as F64"));
}

TEST_F(CheckpointTest, FindsDamage) {
  const fs::path folder = save(1);
  const fs::path shard = folder / "state-00000-of-00001.safetensors";
  const auto refusal = [&] {
    return message_of<FormatError>([&] { load_checkpoint(folder, rows_.slots, solo_); });
  };
  std::string bytes = read_text_file(shard);
  bytes.back() ^= 1;
  testing::write_file(shard, bytes);
  EXPECT_THAT(refusal(), HasSubstr("checksum differs"));
  testing::write_file(shard, bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(refusal(), HasSubstr("the checkpoint was written with"));
  fs::remove(shard);
  EXPECT_THAT(refusal(), HasSubstr("is missing"));
  testing::write_file(folder / "manifest.json",
                      R"({"version": 1, "files": {"../../etc/passwd": {"bytes": 1, "xxh3": "0"}}})");
  EXPECT_THAT(refusal(), HasSubstr("is not a path inside the checkpoint"));
  testing::write_file(folder / "manifest.json", R"({"version": 2, "files": {}})");
  EXPECT_THAT(refusal(), HasSubstr("version 2"));
  fs::remove(folder / "manifest.json");
  EXPECT_THAT(refusal(), HasSubstr("is not a complete checkpoint"));
}

TEST_F(CheckpointTest, FindsTheLastCompleteOne) {
  EXPECT_EQ(find_last_checkpoint(out_.path()), std::nullopt);
  EXPECT_EQ(find_last_checkpoint(out_ / "nowhere"), std::nullopt);
  save(9);
  save(10);
  EXPECT_EQ(find_last_checkpoint(out_.path()), out_ / "checkpoint-10");
  fs::remove(out_ / "checkpoint-10/run_state.json");
  fs::create_directories(out_ / "checkpoint-11");
  fs::create_directories(out_ / "checkpoint-12x");
  EXPECT_EQ(find_last_checkpoint(out_.path()), out_ / "checkpoint-9");
}

TEST_F(CheckpointTest, ReplacesOneOfTheSameStep) {
  save(3);
  rows_.slots[0].master.fill_(5);
  save(3);
  Rows other(numbers(), 0, 4);
  load_checkpoint(out_ / "checkpoint-3", other.slots, solo_);
  EXPECT_TRUE(at::equal(other.slots[0].master, at::full({4, 3}, 5.f)));
  EXPECT_THAT(testing::names_in(out_.path()), ElementsAre("checkpoint-3"));
}

TEST_F(CheckpointTest, CarriesFilesOfTheCaller) {
  SaveOptions options;
  options.write_more = [](const fs::path& folder) {
    fs::create_directories(folder / "adapter");
    testing::write_file(folder / "adapter/config.json", "{}");
  };
  const fs::path folder = save(1, options);
  EXPECT_TRUE(fs::exists(folder / "adapter/config.json"));
  testing::write_file(folder / "adapter/config.json", "[]");
  EXPECT_THROW(load_checkpoint(folder, rows_.slots, solo_), FormatError);  // in the manifest, too
}

// Case F05: the limit holds, and nothing is removed before the new one is complete.
TEST_F(CheckpointTest, CaseF05KeepsWhatTheLimitSays) {
  const auto kept = [&](int64_t limit, const std::string& best) {
    fs::remove_all(out_.path());
    fs::create_directories(out_.path());
    for (int64_t step = 2; step <= 12; step += 2) {
      RunState state = state_at(step);
      if (step >= 4 && !best.empty()) state.trainer.best_model_checkpoint = (out_ / best).string();
      save_checkpoint(out_.path(), rows_.slots, state, solo_, {.save_total_limit = limit, .keep_best = true});
    }
    return testing::names_in(out_.path());
  };
  EXPECT_THAT(kept(0, ""), ::testing::SizeIs(6));
  EXPECT_THAT(kept(1, ""), ElementsAre("checkpoint-12"));
  EXPECT_THAT(kept(2, ""), ElementsAre("checkpoint-10", "checkpoint-12"));
  EXPECT_THAT(kept(1, "checkpoint-4"), ElementsAre("checkpoint-12", "checkpoint-4"));
  EXPECT_THAT(kept(2, "checkpoint-4"), ElementsAre("checkpoint-12", "checkpoint-4"));
  EXPECT_THAT(kept(3, "checkpoint-4"), ElementsAre("checkpoint-10", "checkpoint-12", "checkpoint-4"));
}

// A run that went back to checkpoint-2 keeps its own, not those of the course it left.
TEST_F(CheckpointTest, TheLimitTakesALeftCourseFirst) {
  for (const int64_t step : {2, 8, 10}) save(step);
  save(4, {.save_total_limit = 3});
  EXPECT_THAT(testing::names_in(out_.path()), ElementsAre("checkpoint-10", "checkpoint-2", "checkpoint-4"));
  save(6, {.save_total_limit = 1});
  EXPECT_THAT(testing::names_in(out_.path()), ElementsAre("checkpoint-6"));
}

/// ulimit -f for as long as it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(CheckpointTest, CaseF05AFailedSaveLeavesTheLastOneWhole) {
  const SaveOptions keep_one{.save_total_limit = 1};
  save(2, keep_one);
  {
    const FileSizeLimit limit(256);
    EXPECT_THAT(message_of<SystemError>([&] { save(4, keep_one); }), HasSubstr(out_.path().string()));
  }
  EXPECT_THAT(testing::names_in(out_.path()), ElementsAre("checkpoint-2"));
  load_checkpoint(out_ / "checkpoint-2", rows_.slots, solo_);
  SaveOptions throwing = keep_one;
  throwing.write_more = [](const fs::path&) { throw SystemError("no tokenizer"); };
  EXPECT_THROW(save(4, throwing), SystemError);
  EXPECT_THAT(testing::names_in(out_.path()), ElementsAre("checkpoint-2"));
  save(4, keep_one);
  EXPECT_THAT(testing::names_in(out_.path()), ElementsAre("checkpoint-4"));
}

TEST_F(CheckpointTest, AFailureOnOneRankFailsAll) {
  test::run_ranks(2, [&](const comm::Group& group) {
    Rows mine(numbers(), 2 * group.rank(), 2 * group.rank() + 2);
    if (group.rank() == 1) mine.slots[0].state["odd"] = at::zeros({1}, at::kLong);
    const auto attempt = [&] { save_checkpoint(out_.path(), mine.slots, state_at(1), group); };
    if (group.rank() == 1)
      EXPECT_THAT(message_of<StateError>(attempt), HasSubstr("dtype Long"));
    else
      EXPECT_THAT(message_of<SystemError>(attempt), HasSubstr("rank 1 failed: "));
  });
  EXPECT_THAT(testing::names_in(out_.path()), ::testing::IsEmpty());
}

TEST_F(CheckpointTest, TheFolderIsTriedBeforeTheFirstStep) {
  EXPECT_EQ(check_output_dir(out_ / "a/b", 1), "");
  EXPECT_TRUE(fs::is_directory(out_ / "a/b"));
  EXPECT_THAT(check_output_dir(out_.path(), int64_t{1} << 60), HasSubstr("checkpoints will take 1024.0 PiB"));
  testing::write_file(out_ / "file", "");
  EXPECT_THAT(message_of<SystemError>([&] { check_output_dir(out_ / "file", 1); }), HasSubstr("file"));
  EXPECT_THROW(check_output_dir(out_ / "file/below", 1), SystemError);
  EXPECT_EQ(checkpoint_bytes(rows_.slots), 3 * 12 * 4 + 4);
}

TEST(Differences, AreToldOneByOne) {
  EXPECT_THAT(
      differences({{"lr", "1"}, {"seed", "1"}, {"old", "x"}}, {{"lr", "2"}, {"seed", "1"}, {"new", "y"}}),
      ElementsAre("lr: 1 in the checkpoint, 2 now", "old: x in the checkpoint, not set now",
                  "new: not in the checkpoint, y now"));
}

}  // namespace
}  // namespace duoka::train
