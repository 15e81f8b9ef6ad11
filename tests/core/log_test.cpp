// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/log.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/stderr.h"

namespace duoka {
namespace {

using namespace std::chrono_literals;
using duoka::testing::caught;
using duoka::testing::shown_on_terminal;
using duoka::testing::with_stderr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

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

TEST(Log, AFullPipeThatDoesNotBlockGetsEveryLine) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  ASSERT_EQ(::fcntl(ends[0], F_SETPIPE_SZ, 4096), 4096);
  const std::string line(10'000, 'x');  // more than the pipe holds, so it goes in parts
  std::string read;
  std::thread reader([&] {
    std::this_thread::sleep_for(30ms);  // until when the writer has found the pipe full
    char buffer[4096];
    for (ssize_t n = 0;
         read.size() < 4 * (line.size() + 1) && (n = ::read(ends[0], buffer, sizeof buffer)) != 0;)
      if (n > 0) read.append(buffer, static_cast<size_t>(n));
  });
  with_stderr(ends[1], [&] {
    for (int i = 0; i < 4; ++i) Log().info(line);
  });
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(read, line + "\n" + line + "\n" + line + "\n" + line + "\n");
}

TEST(Log, ASignalDoesNotCutALine) {
  struct sigaction handled {
  }, before{};
  handled.sa_handler = [](int) {};  // and no SA_RESTART: it interrupts a write
  ::sigaction(SIGUSR1, &handled, &before);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::fcntl(ends[0], F_SETPIPE_SZ, 4096), 4096);
  std::string read;
  std::thread reader([&, writer = ::pthread_self()] {
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(5ms);
      ::pthread_kill(writer, SIGUSR1);
    }
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      read.append(buffer, static_cast<size_t>(n));
  });
  with_stderr(ends[1], [] { Log().info(std::string(10'000, 'x')); });
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(read, std::string(10'000, 'x') + "\n");
}

TEST(Log, ReaderThatWentAwayDoesNoHarm) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  with_stderr(ends[1], [] { Log().info("to nobody"); });
  ::close(ends[1]);
  std::signal(SIGPIPE, before);
}

class Terminal : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TERM", "xterm", 1); }
};

TEST_F(Terminal, StatusIsRedrawnBelowMessages) {
  const std::string shown = shown_on_terminal(80, [] {
    const Log log;
    EXPECT_TRUE(log.has_status());
    log.info("start");
    log.status("10%");
    log.info("note");
    log.status("20%");
    log.status("");
    log.info("end");
  });
  EXPECT_EQ(shown, "start\n\r\x1b[K10%\r\x1b[Knote\n10%\r\x1b[K20%\r\x1b[Kend\n");
}

// Two Logs of a process share the terminal's one status line.
TEST_F(Terminal, AnyLogGoesAroundTheStatusLine) {
  const std::string shown = shown_on_terminal(80, [] {
    const Log one, other;
    one.status("10%");
    other.warning("x");
    one.status("");
  });
  EXPECT_EQ(shown, "\r\x1b[K10%\r\x1b[Kwarning: x\n10%\r\x1b[K");
}

TEST_F(Terminal, OtherRanksHaveNoStatus) {
  const std::string shown = shown_on_terminal(80, [] {
    const Log log(1, 2);
    EXPECT_FALSE(log.has_status());
    log.status("10%");
  });
  EXPECT_EQ(shown, "");
}

TEST_F(Terminal, ThatCannotMoveItsCursorHasNoStatus) {
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(shown_on_terminal(80, [] { Log().status("10%"); }), "");
  ::unsetenv("TERM");
  EXPECT_EQ(shown_on_terminal(80, [] { Log().status("10%"); }), "");
}

TEST_F(Terminal, ColumnsAreThoseItHas) {
  shown_on_terminal(47, [] { EXPECT_EQ(Log().columns(), 47); });
  shown_on_terminal(0, [] { EXPECT_EQ(Log().columns(), 80) << "a terminal that does not know"; });
}

TEST_F(Terminal, ProgressIsABarThatIsTakenAwayAtTheEnd) {
  const std::string shown = shown_on_terminal(80, [] {
    Progress progress(Log(), "reading", 2000, "row", 0ms);
    progress.advance(500);
    progress.advance(1);  // too soon to draw anew
  });
  EXPECT_EQ(shown,
            "\r\x1b[Kreading: 25% [##########..............................] 500 of 2,000 rows"
            "\r\x1b[Kreading: 501 rows in 0:00\n");
}

TEST_F(Terminal, ProgressFitsAnyWidth) {
  for (const int columns : {2, 10, 30, 45, 60, 200}) {
    const std::string shown = shown_on_terminal(columns, [] {
      Progress progress(Log(), "tokenising 数据.jsonl", 1'000'000, "row", 0ms);
      progress.advance(123'456);
    });
    const std::string bar = shown.substr(0, shown.find('\r', 1));
    EXPECT_THAT(bar, StartsWith("\r\x1b[K"));
    // Bytes outnumber columns here but for "…": three bytes in one column.
    const int allowed = columns - 1 + (bar.ends_with("…") ? 2 : 0);
    EXPECT_LE(static_cast<int>(bar.size()) - 4, allowed) << columns << ": " << bar;
  }
}

TEST(Progress, IsSilentWhenQuick) {
  EXPECT_EQ(caught([] { Progress(Log(), "reading", 10, "row").advance(10); }), "");
}

TEST(Progress, InAFileIsALineNowAndThenAndOneAtTheEnd) {
  const std::string out = caught([] {
    Progress progress(Log(), "reading", 4096, "byte", 20ms);
    std::this_thread::sleep_for(25ms);
    progress.advance(2048);
    progress.advance(2048);  // within ten seconds of the last line
  });
  EXPECT_THAT(out, MatchesRegex("reading: 50% 2.0 KiB of 4.0 KiB\nreading: 4.0 KiB in 0:0[0-9]\n"));
}

TEST(Progress, OfMoreThanExpectedStaysAtTheWhole) {
  const std::string out = caught([] { Progress(Log(), "reading", 10, "row", 0ms).advance(25); });
  EXPECT_THAT(out, StartsWith("reading: 100% 25 of 10 rows\n"));
  const std::string unknown = caught([] { Progress(Log(), "reading", 0, "row", 0ms).advance(25); });
  EXPECT_THAT(unknown, StartsWith("reading: 0% 25 of 0 rows\n"));
}

TEST(Progress, NameOfAFileDrivesNoTerminal) {
  const std::string out = caught([] { Progress(Log(), "reading a\x1b[2J\n", 10, "row", 0ms).advance(5); });
  EXPECT_EQ(out, "reading a\\x1B[2J\\x0A: 50% 5 of 10 rows\nreading a\\x1B[2J\\x0A: 5 rows in 0:00\n");
}

}  // namespace
}  // namespace duoka
