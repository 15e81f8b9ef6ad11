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

class CacheStampTest : public ::testing::Test {
 protected:
  CacheStampTest() {
    write_file_atomically(data_, "rows");
    write_file_atomically(cache_, "tokens");
  }

  CacheStamp stamp(std::string_view options = "cutoff 8") const {
    return {folder_.path(), data_.string(), std::array{options}};
  }
  /// Until a change has another time.
  void settle() const {
    while (!is_settled(data_) || !is_settled(cache_))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  void write() const {
    settle();
    stamp().write(state_of_file(data_), cache_);
  }

  TemporaryFolder folder_;
  std::filesystem::path data_ = folder_.path() / "rows.jsonl", cache_ = folder_.path() / "0123.tokens";
};

TEST_F(CacheStampTest, FindsTheFileOfUnchangedData) {
  EXPECT_FALSE(stamp().find());
  write();
  EXPECT_EQ(stamp().find(), cache_);
  EXPECT_FALSE(stamp("cutoff 9").find());
}

TEST_F(CacheStampTest, AnyChangeOfEitherFileEndsIt) {
  for (const auto& path : {data_, cache_}) {
    write();
    ASSERT_TRUE(stamp().find());
    // The same size, and the time that it had.
    const auto time = std::filesystem::last_write_time(path);
    std::ofstream(path, std::ios::in | std::ios::out) << "T";
    std::filesystem::last_write_time(path, time);
    EXPECT_FALSE(stamp().find()) << path;
  }
  write();
  std::filesystem::remove(cache_);
  EXPECT_FALSE(stamp().find());
}

TEST_F(CacheStampTest, IsNotWrittenOfWhatHasJustChanged) {
  settle();
  std::ofstream(data_) << "rows and more";
  if (is_settled(data_)) GTEST_SKIP() << "too slow a machine";
  stamp().write(state_of_file(data_), cache_);
  EXPECT_FALSE(stamp().find());
}

TEST_F(CacheStampTest, OfAnEarlierStateOfTheDataFindsNothing) {
  const std::string before = state_of_file(data_);
  std::ofstream(data_) << "other rows";
  settle();
  stamp().write(before, cache_);
  EXPECT_FALSE(stamp().find());
}

TEST_F(CacheStampTest, DamagedIsNoStamp) {
  write();
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    if (entry.path().extension() == ".stamp") std::ofstream(entry.path()) << "nothing\nto see";
  EXPECT_FALSE(stamp().find());
}

}  // namespace
}  // namespace duoka::data
