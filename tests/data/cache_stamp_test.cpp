// SPDX-License-Identifier: Apache-2.0
#include "data/cache_stamp.h"

#include <array>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "data/data_files.h"
#include "duoka/core/files.h"

namespace duoka::data {
namespace {

using Paths = std::vector<std::filesystem::path>;

class CacheStampTest : public ::testing::Test {
 protected:
  CacheStampTest() {
    write_file_atomically(data_, "rows");
    write_file_atomically(vocabulary_, "words");
    write_file_atomically(cache_, "tokens");
  }

  CacheStamp stamp(std::string_view options = "cutoff 8") const {
    return {folder_.path(), {data_, vocabulary_, template_}, std::array{options}};
  }
  std::optional<std::filesystem::path> found(std::string_view options = "cutoff 8") const {
    const CacheStamp one = stamp(options);
    return one.find(one.state_of_inputs());
  }
  /// Until a change has another time.
  void settle() const {
    while (!state_of_files(Paths{data_, vocabulary_, template_, cache_}).is_settled)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  void write() const {
    settle();
    stamp().write(stamp().state_of_inputs(), cache_);
  }

  TemporaryFolder folder_;
  std::filesystem::path data_ = folder_.path() / "rows.jsonl", vocabulary_ = folder_.path() / "vocabulary",
                        template_ = folder_.path() / "template", cache_ = folder_.path() / "0123.tokens";
};

TEST_F(CacheStampTest, FindsTheFileOfUnchangedInputs) {
  EXPECT_FALSE(found());
  write();
  EXPECT_EQ(found(), cache_);
  EXPECT_FALSE(found("cutoff 9"));
}

TEST_F(CacheStampTest, AnyChangeOfAFileEndsIt) {
  for (const auto& path : {data_, vocabulary_, cache_}) {
    write();
    ASSERT_TRUE(found());
    // The same size, and the time that it had.
    const auto time = std::filesystem::last_write_time(path);
    std::ofstream(path, std::ios::in | std::ios::out) << "T";
    std::filesystem::last_write_time(path, time);
    EXPECT_FALSE(found()) << path;
  }
  write();
  std::filesystem::remove(cache_);
  EXPECT_FALSE(found());
}

TEST_F(CacheStampTest, AFileThatComesOrGoesEndsIt) {
  write();
  ASSERT_TRUE(found());
  std::ofstream(template_) << "{{ messages }}";
  EXPECT_FALSE(found());
  write();
  ASSERT_TRUE(found());
  std::filesystem::remove(template_);
  EXPECT_FALSE(found());
}

TEST_F(CacheStampTest, IsNotWrittenOfWhatHasJustChanged) {
  for (const auto& path : {data_, vocabulary_, cache_}) {
    settle();
    std::ofstream(path) << "words and more";
    const FileState inputs = stamp().state_of_inputs();
    if (state_of_files(Paths{data_, vocabulary_, cache_}).is_settled) GTEST_SKIP() << "too slow a machine";
    stamp().write(inputs, cache_);
    EXPECT_FALSE(found()) << path;
  }
}

// A change between the look at the inputs and their reading could have the time of the change before it.
TEST_F(CacheStampTest, InputsMustHaveBeenSettledWhenTheyWereLookedAt) {
  settle();
  std::ofstream(data_) << "other rows";
  const FileState inputs = stamp().state_of_inputs();
  if (inputs.is_settled) GTEST_SKIP() << "too slow a machine";
  settle();
  stamp().write(inputs, cache_);
  EXPECT_FALSE(found());
}

TEST_F(CacheStampTest, OfAnEarlierStateOfTheDataFindsNothing) {
  settle();
  const FileState before = stamp().state_of_inputs();
  std::ofstream(data_) << "other rows";
  settle();
  stamp().write(before, cache_);
  EXPECT_FALSE(found());
}

TEST_F(CacheStampTest, DamagedIsNoStamp) {
  write();
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    if (entry.path().extension() == ".stamp") std::ofstream(entry.path()) << "nothing\nto see";
  EXPECT_FALSE(found());
}

}  // namespace
}  // namespace duoka::data
