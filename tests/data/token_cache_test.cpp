// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/token_cache.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/data_files.h"
#include "data/file_lock.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"

namespace duoka::data {
namespace {

using ::testing::HasSubstr;

/// Row i: i % 5 + 2 tokens i, i+1, …, all but the first two trained; each seventh row is refused.
RowOutcome outcome_of(int64_t i) {
  RowOutcome outcome;
  outcome.line = i + 1;
  outcome.full_tokens = i % 5 + 2;
  if (i % 7 == 6) {
    outcome.refusal = "seven";
    return outcome;
  }
  EncodedRow row;
  for (int64_t t = 0; t < outcome.full_tokens; ++t) {
    row.ids.push_back(static_cast<int32_t>(i + t));
    row.labels.push_back(t < 2 ? -100 : static_cast<int32_t>(i + t));
  }
  if (i % 10 == 0) outcome.warnings = {"ten"};
  outcome.was_cut = i % 3 == 0;
  outcome.rows.push_back(std::move(row));
  return outcome;
}

class TokenCacheTest : public ::testing::Test {
 protected:
  CacheSource source(int64_t rows = 1000, int threads = 3) {
    CacheSource s;
    s.folder = (folder_.path() / "cache").string();
    s.data_path = "rows.jsonl";
    s.key = {1, static_cast<uint64_t>(rows)};
    s.num_rows = rows;
    s.num_threads = threads;
    s.make_encode = [this] {
      return [this](int64_t i) {
        ++num_encoded_;
        return outcome_of(i);
      };
    };
    return s;
  }
  TokenCache open(const CacheSource& s) { return TokenCache::open(s, log_); }

  TemporaryFolder folder_;
  Log log_{1, 2};  // Rank 1: silent but for warnings.
  std::atomic<int64_t> num_encoded_ = 0;
};

void expect_all_rows(const TokenCache& cache, int64_t num_source_rows) {
  int64_t row = 0;
  for (int64_t i = 0; i < num_source_rows; ++i) {
    const RowOutcome wanted = outcome_of(i);
    if (wanted.rows.empty()) continue;
    ASSERT_EQ(cache.source_row(row), i);
    std::vector<int32_t> ids;
    std::vector<int32_t> labels;
    cache.read(row, ids, labels);
    EXPECT_EQ(ids, wanted.rows[0].ids);
    EXPECT_EQ(labels, wanted.rows[0].labels);
    EXPECT_EQ(cache.num_tokens(row), wanted.full_tokens);
    EXPECT_EQ(cache.num_trained(row), wanted.full_tokens - 2);
    EXPECT_EQ(cache.full_tokens(row), wanted.full_tokens);
    ++row;
  }
  EXPECT_EQ(cache.num_rows(), row);
}

TEST_F(TokenCacheTest, GivesBackWhatWasEncodedInOrder) {
  for (int threads : {1, 2, 5}) {
    const TokenCache cache = open(source(1000 + threads, threads));
    EXPECT_TRUE(cache.was_built());
    expect_all_rows(cache, 1000 + threads);
  }
}

TEST_F(TokenCacheTest, CountsAndRemarks) {
  const TokenCache cache = open(source(70));
  const TokenCache::Counts counts = cache.counts();
  EXPECT_EQ(counts.num_read, 70);
  EXPECT_EQ(counts.num_refused, 10);
  EXPECT_EQ(counts.num_used, 60);
  EXPECT_EQ(counts.num_warned, 6);  // Rows 0, 10, 30, 40, 50, 60; row 20 is refused.
  EXPECT_EQ(counts.num_cut, 20);    // 24 multiples of 3, of which 6, 27, 48 and 69 are refused.
  EXPECT_EQ(counts.longest, 6);
  const auto refusals = cache.refusals(2);
  ASSERT_EQ(refusals.size(), 2u);
  EXPECT_EQ(refusals[1].line, 14);
  EXPECT_EQ(refusals[1].text, "seven");
  EXPECT_EQ(cache.refusals(1000).size(), 10u);
  EXPECT_EQ(cache.warnings(1000).size(), 6u);
}

TEST_F(TokenCacheTest, SecondOpeningEncodesNothing) {
  open(source());
  const int64_t before = num_encoded_;
  const TokenCache again = open(source());
  EXPECT_FALSE(again.was_built());
  EXPECT_EQ(num_encoded_, before);
  expect_all_rows(again, 1000);
}

TEST_F(TokenCacheTest, OverwritingEncodesAgain) {
  open(source());
  CacheSource s = source();
  s.is_overwriting = true;
  EXPECT_TRUE(open(s).was_built());
}

TEST_F(TokenCacheTest, DamageAnywhereIsFoundAndMadeGood) {
  const std::string path = open(source(200)).path();
  const std::string good = read_text_file(path);
  for (size_t at : {size_t{0}, good.size() / 3, good.size() - 120, good.size() - 100, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << bad;
    const TokenCache cache = open(source(200));
    EXPECT_TRUE(cache.was_built()) << "byte " << at;
    expect_all_rows(cache, 200);
  }
  EXPECT_EQ(read_text_file(path), good);
}

TEST_F(TokenCacheTest, CutFilesAreMadeAgain) {
  const std::string path = open(source(200)).path();
  const std::string good = read_text_file(path);
  for (size_t size : {size_t{0}, size_t{10}, size_t{112}, good.size() / 2, good.size() - 1}) {
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << good.substr(0, size);
    EXPECT_TRUE(open(source(200)).was_built()) << size;
  }
}

TEST_F(TokenCacheTest, NoUsableRowIsAnErrorAndLeavesNoFile) {
  CacheSource s = source(3);
  s.make_encode = [] {
    return [](int64_t i) {
      RowOutcome outcome;
      outcome.refusal = "prompt fills the cutoff";
      outcome.line = i + 1;
      return outcome;
    };
  };
  try {
    open(s);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "rows.jsonl: 0 of 3 rows usable; line 1: prompt fills the cutoff");
  }
  for (const auto& entry : std::filesystem::directory_iterator(s.folder))
    EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
}

TEST_F(TokenCacheTest, StrictStopsAtTheFirstRefusalInFileOrder) {
  for (bool is_cached : {false, true}) {
    CacheSource s = source(500, 4);
    if (is_cached) open(s);
    s.is_strict = true;
    try {
      open(s);
      FAIL();
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "rows.jsonl:7: seven");
    }
  }
}

TEST_F(TokenCacheTest, AnErrorWhileEncodingIsTheFirstInOrder) {
  CacheSource s = source(1000, 4);
  s.make_encode = [] {
    return [](int64_t i) {
      if (i >= 130) throw FormatError("row " + std::to_string(i));
      return outcome_of(i);
    };
  };
  try {
    open(s);
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "row 130");
  }
}

TEST_F(TokenCacheTest, ManyAtOnceEncodeOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> num_built = 0;
  const CacheSource s = source(2000, 1);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const TokenCache cache = TokenCache::open(s, log_);
      if (cache.was_built()) ++num_built;
      if (cache.num_rows() != 2000 - 285) ADD_FAILURE();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_built, 1);
  EXPECT_EQ(num_encoded_, 2000);
}

// A process that is killed while it writes blocks nobody, and what it left is cleared away.
TEST_F(TokenCacheTest, DeadWriterBlocksNobody) {
  CacheSource s = source(1000, 1);
  const pid_t writer = fork();
  if (writer == 0) {
    s.make_encode = [] {
      return [](int64_t i) {
        if (i == 500) std::this_thread::sleep_for(std::chrono::seconds(600));
        return outcome_of(i);
      };
    };
    try {
      TokenCache::open(s, Log(1, 2));
    } catch (...) {
    }
    _exit(1);
  }
  const auto has_partial = [&] {
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(s.folder, code))
      if (entry.path().extension() == ".partial") return true;
    return false;
  };
  for (int i = 0; i < 6'000 && !has_partial(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(has_partial());
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  expect_all_rows(open(source(1000, 2)), 1000);
  EXPECT_FALSE(has_partial());
}

TEST_F(TokenCacheTest, UnwritableFolderIsTheSystemsError) {
  CacheSource s = source();
  s.folder = write_into(folder_, "file", "") + "/below";
  EXPECT_THAT([&] { open(s); }, ::testing::ThrowsMessage<SystemError>(HasSubstr("set cache_dir")));
}

TEST_F(TokenCacheTest, LockExcludesAndTellsOfTheWait) {
  const std::string path = (folder_.path() / "x.lock").string();
  auto first = std::make_unique<FileLock>(path, [] {});
  std::atomic<bool> was_told = false;
  std::atomic<bool> has_it = false;
  std::thread second([&] {
    const FileLock lock(
        path, [&] { was_told = true; }, std::chrono::milliseconds(30));
    has_it = true;
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!was_told && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(was_told);
  EXPECT_FALSE(has_it);
  first.reset();
  second.join();
  EXPECT_TRUE(has_it);
}

TEST(ContentKey, KeepsPartsApart) {
  const auto key = [](std::vector<std::string_view> parts) { return content_key(parts); };
  EXPECT_EQ(key({"ab", "c"}), key({"ab", "c"}));
  EXPECT_NE(key({"ab", "c"}), key({"a", "bc"}));
  EXPECT_NE(key({"ab"}), key({"ab", ""}));
}

}  // namespace
}  // namespace duoka::data
