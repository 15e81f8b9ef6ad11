// SPDX-License-Identifier: Apache-2.0
#include "parallel/trace.h"

#include <csignal>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

using Json = nlohmann::json;
using testing::TemporaryFolder;

const auto origin = std::chrono::system_clock::now();

/// Fails, and throws, where the file is no JSON.
Json read(const std::filesystem::path& path) { return Json::parse(read_text_file(path)); }

/// Events that are spans.
std::vector<Json> spans(const Json& events) {
  std::vector<Json> found;
  for (const Json& event : events)
    if (event.at("ph") == "X") found.push_back(event);
  return found;
}

TEST(Trace, SpansNestAndCarryWhatTheyAreAbout) {
  const TemporaryFolder folder;
  {
    TraceFile file(folder.path(), 3, origin);
    file.begin_update(7);
    const TraceSpan outer(&file, "update");
    {
      const TraceSpan first(&file, "forward", {.micro = 0, .stage = 2});
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const TraceSpan second(&file, "backward", {.layer = 4});
  }
  const auto found = spans(read(folder / "trace-rank-3.json"));
  ASSERT_EQ(found.size(), 3U);  // in the order in which they end
  const Json& first = found[0];
  const Json& outer = found[2];
  EXPECT_EQ(first.at("name"), "forward");
  EXPECT_EQ(first.at("args"), (Json{{"update", 7}, {"micro", 0}, {"stage", 2}}));
  EXPECT_EQ(found[1].at("args"), (Json{{"update", 7}, {"layer", 4}}));
  EXPECT_EQ(outer.at("args"), (Json{{"update", 7}}));
  const auto start = [](const Json& event) { return event.at("ts").get<double>(); };
  const auto end = [](const Json& event) {
    return event.at("ts").get<double>() + event.at("dur").get<double>();
  };
  EXPECT_GE(first.at("dur").get<double>(), 2000) << "microseconds";
  EXPECT_LT(start(outer), start(first));
  for (const auto& inner : {found[0], found[1]}) EXPECT_LE(end(inner), end(outer) + 0.001);
  for (const auto& event : found) EXPECT_EQ(event.at("pid"), 3);
  EXPECT_LT(end(outer), 3600e6) << "time 0 is the origin that is given";
}

TEST(Trace, RanksAreNamed) {
  const TemporaryFolder folder;
  TraceFile file(folder.path(), 2, origin);
  std::map<std::string, std::vector<std::string>> names;
  for (const Json& event : read(folder / "trace-rank-2.json"))
    if (event.at("args").contains("name")) names[event.at("name")].push_back(event.at("args").at("name"));
  EXPECT_THAT(names["process_name"], ::testing::ElementsAre("rank 2"));
  EXPECT_THAT(names["thread_name"], ::testing::ElementsAre("work"));
}

TEST(Trace, WhatGoesOnBesideMayOverlap) {
  const TemporaryFolder folder;
  {
    TraceFile file(folder.path(), 0, origin);
    const auto start = TraceFile::Clock::now();
    file.add_beside("send", {.micro = 1}, start, start + std::chrono::microseconds(30));
    file.add_beside("send", {}, start + std::chrono::microseconds(10), start + std::chrono::microseconds(40));
  }
  std::map<std::string, std::map<std::string, double>> times;  // [id][phase]
  for (const Json& event : read(folder / "trace-rank-0.json"))
    if (event.contains("id2")) times[event.at("id2").at("local")][event.at("ph")] = event.at("ts");
  ASSERT_EQ(times.size(), 2U);
  for (auto& [id, of_id] : times) EXPECT_NEAR(of_id.at("e") - of_id.at("b"), 30, 0.001) << id;
}

TEST(Trace, WithoutAFileNothingHappens) { const TraceSpan span(nullptr, "forward"); }

TEST(Trace, TimesKeepTheirDigits) {
  const TemporaryFolder folder;
  {
    TraceFile file(folder.path(), 0, origin);
    const auto start = TraceFile::Clock::now();
    file.add("forward", {}, start, start + std::chrono::nanoseconds(12'345'007));
  }
  EXPECT_THAT(read_text_file(folder / "trace-rank-0.json"), ::testing::HasSubstr("\"dur\":12345.007"));
}

TEST(Trace, ThreadsMayShareAFile) {
  const TemporaryFolder folder;
  {
    TraceFile file(folder.path(), 0, origin);
    std::vector<std::thread> threads;
    for (const char* name : {"forward", "backward"})
      threads.emplace_back([&file, name] {
        for (int64_t i = 0; i < 2000; ++i) const TraceSpan span(&file, name, {.micro = i});
      });
    for (std::thread& thread : threads) thread.join();
  }
  std::map<std::string, std::pair<int64_t, double>> last;
  const auto found = spans(read(folder / "trace-rank-0.json"));
  EXPECT_EQ(found.size(), 4000U);
  for (const Json& span : found) {
    auto& [next, end] = last[span.at("name")];
    EXPECT_EQ(span.at("args").at("micro"), next++);
    EXPECT_GE(span.at("ts").get<double>(), end - 0.001);
    end = span.at("ts").get<double>() + span.at("dur").get<double>();
  }
}

/// Writes spans until the file is larger than `size`, and is killed: between two writes, for one that is hit
/// itself may be cut.
[[noreturn]] void write_and_be_killed(const std::filesystem::path& folder, uintmax_t size) {
  TraceFile file(folder, 0, origin);
  for (int64_t i = 0;; ++i) {
    { const TraceSpan span(&file, "forward", {.micro = i}); }
    if (i % 5 == 0) file.flush();
    if (std::filesystem::file_size(folder / "trace-rank-0.json") > size) ::kill(::getpid(), SIGKILL);
  }
}

TEST(Trace, IsWholeWhenTheRunIsKilled) {
  for (uintmax_t size = 2000; size < 50000; size += 11003) {
    const TemporaryFolder folder;
    const pid_t child = ::fork();
    if (child == 0) write_and_be_killed(folder.path(), size);
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_GT(spans(read(folder / "trace-rank-0.json")).size(), size / 200);
  }
}

/// Limits the size of files that this process writes, while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(Trace, AFullDiskEndsTheTraceAndNotTheRun) {
  const TemporaryFolder folder;
  TraceFile file(folder.path(), 0, origin);
  { const TraceSpan span(&file, "first"); }
  file.flush();
  EXPECT_EQ(file.failure(), "");
  const auto path = folder / "trace-rank-0.json";
  {
    const FileSizeLimit limit(std::filesystem::file_size(path) + 20);
    { const TraceSpan span(&file, "second"); }
    file.flush();
  }
  EXPECT_EQ(spans(read(path)).size(), 1U);
  EXPECT_THAT(file.failure(),
              ::testing::AllOf(::testing::HasSubstr(path.string()), ::testing::HasSubstr("ends here")));
  { const TraceSpan span(&file, "third"); }
  file.flush();
  EXPECT_EQ(spans(read(path)).size(), 1U);
}

TEST(Trace, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(TraceFile("/nowhere/at/all", 0, origin), SystemError);
  EXPECT_THROW(merge_traces("/nowhere/at/all"), SystemError);
}

TEST(Trace, RanksAreMergedToOneFile) {
  const TemporaryFolder folder;
  for (const int rank : {0, 1, 10}) {
    TraceFile file(folder.path(), rank, origin);
    for (int i = 0; i <= rank; ++i) const TraceSpan span(&file, "forward");
  }
  testing::write_file(folder / "trace-rank-2.json", "[\n{\"ph\":");
  merge_traces(folder.path());
  std::map<int, int> count;
  for (const Json& span : spans(read(folder / "trace.json"))) ++count[span.at("pid")];
  EXPECT_EQ(count, (std::map<int, int>{{0, 1}, {1, 2}, {10, 11}}));
  EXPECT_THAT(testing::names_in(folder.path()), ::testing::ElementsAre("trace-rank-2.json", "trace.json"))
      << "what cannot be merged stays";
  merge_traces(folder.path());  // nothing is there
  EXPECT_EQ(read(folder / "trace.json"), Json::array());
}

}  // namespace
}  // namespace duoka::parallel
