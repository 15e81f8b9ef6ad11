// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/log.h"

#include <cstdlib>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "duoka/core/files.h"
#include "support/test_files.h"

namespace duoka {
namespace {

using duoka::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

/// What `body` writes to standard error, which is a file meanwhile.
std::string caught(const std::function<void()>& body) {
  const TemporaryFolder folder;
  const int file = ::open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0600);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  body();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  return read_text_file(folder / "err");
}

TEST(Log, OnlyRankZeroInforms) {
  EXPECT_EQ(caught([] { Log(0, 2).info("loading"); }), "loading\n");
  EXPECT_EQ(caught([] { Log(1, 2).info("loading"); }), "");
}

TEST(Log, WarningsOfOtherRanksSayWhose) {
  EXPECT_EQ(caught([] { Log(0, 2).warning("x"); }), "warning: x\n");
  EXPECT_EQ(caught([] { Log(1, 2).warning("x"); }), "[rank 1 of 2] warning: x\n");
}

TEST(Log, NoStatusLineAndNoEscapesInAFile) {
  const std::string out = caught([] {
    const Log log;
    EXPECT_FALSE(log.has_status());
    EXPECT_EQ(log.columns(), 80);
    log.status("50%");
    log.info("done");
  });
  EXPECT_EQ(out, "done\n");
}

TEST(Progress, IsSilentWhenQuick) {
  EXPECT_EQ(caught([] { Progress(Log(), "reading", 10, "rows").advance(10); }), "");
}

TEST(Progress, SpeaksOnceASecondHasPassedAndAtTheEnd) {
  const std::string out = caught([] {
    Progress progress(Log(), "reading", 4096, "bytes");
    progress.advance(1024);
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    progress.advance(1024);
    progress.advance(2048);
  });
  EXPECT_THAT(out, HasSubstr("reading: 50% 2.0 KiB of 4.0 KiB\n"));
  EXPECT_THAT(out, HasSubstr("reading: 4.0 KiB in 0:01\n"));
  EXPECT_THAT(out, Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace duoka
