// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/progress_bar.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/stderr.h"

namespace duoka::train {
namespace {

using ::testing::HasSubstr;

StepReport report_at(int64_t step) {
  StepReport report;
  report.step = step;
  report.total_steps = 200;
  report.loss = 1.23456;
  report.learning_rate = 1.5e-4;
  report.grad_norm = 0.5;
  report.tokens_per_second = 12345;
  report.total_tokens = 999;
  report.seconds_per_step = 0.5;
  report.elapsed_seconds = 61;
  return report;
}

TEST(BarText, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(bar_text(report_at(100), 120),
            "100/200 [###############...............] loss 1.235 left 0:50 2.00it/s 12.3k tok/s lr 0.00015");
}

TEST(BarText, FitsAnyTerminal) {
  for (int columns = 0; columns <= 130; ++columns)
    for (const int64_t step : {1, 100, 200}) {
      const std::string line = bar_text(report_at(step), columns);
      EXPECT_LE(static_cast<int>(line.size()), std::max(0, columns - 1));
      EXPECT_EQ(line.find_first_of("\r\n\x1b"), std::string::npos);
    }
  const std::string at_60 = bar_text(report_at(100), 60);
  EXPECT_THAT(at_60, HasSubstr("100/200"));
  EXPECT_THAT(at_60, HasSubstr("loss 1.235"));
  EXPECT_THAT(at_60, HasSubstr("left 0:50"));
}

TEST(BarText, SlowStepsAreSecondsPerStep) {
  StepReport report = report_at(1);
  report.seconds_per_step = 2.5;
  EXPECT_THAT(bar_text(report, 120), HasSubstr("2.50s/it"));
  report.seconds_per_step = 0;
  report.total_steps = 0;
  EXPECT_THAT(bar_text(report, 120), HasSubstr("?it/s"));
}

TEST(LineText, IsKeyValuePairs) {
  EXPECT_EQ(line_text(report_at(100)),
            "step=100 total=200 epoch=0.000 loss=1.23456 lr=0.00015 grad_norm=0.5 tokens_per_second=12345 "
            "total_tokens=999 "
            "elapsed=1:01 left=0:50");
}

void run(int rank) {
  ProgressBar bar((Log(rank, 4)));
  for (int64_t step = 1; step <= 20; ++step) bar.update(report_at(step), report_at(step));
}

// Case H04: in a file no carriage return, no escape, each step once, from rank 0 only, there before the end.
TEST(ProgressBar, CaseH04PlainLinesInAFile) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "log";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  testing::with_stderr(file, [&] {
    for (int rank = 0; rank < 4; ++rank) run(rank);
    EXPECT_THAT(read_text_file(path), HasSubstr("step=20 "));
  });
  ::close(file);
  const std::string log = read_text_file(path);
  EXPECT_EQ(log.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 20);
  for (int step = 1; step <= 20; ++step)
    EXPECT_THAT(log, HasSubstr("step=" + std::to_string(step) + " total=200"));
}

TEST(ProgressBar, IsOneLineBelowTheLoggedOnesOnATerminal) {
  ::setenv("TERM", "xterm", 1);
  StepReport first = report_at(1), second = report_at(2), mean = report_at(2);
  first.loss = 3, second.loss = 1, mean.loss = 2;
  const std::string shown = testing::shown_on_terminal(60, [&] {
    ProgressBar bar((Log()));
    bar.update(first, std::nullopt);
    bar.update(second, mean);
  });
  const std::string erase = "\r\x1b[K", one = bar_text(first, 60), two = bar_text(second, 60);
  EXPECT_EQ(shown, erase + one + erase + line_text(mean) + "\n" + one + erase + two + erase);
  EXPECT_THAT(two, HasSubstr("loss 1 "));
}

TEST(ProgressBar, NotesStandInThePlaceOfTheBar) {
  ::setenv("TERM", "xterm", 1);
  const auto talk = [](int rank) {
    ProgressBar bar((Log(rank, 4)));
    bar.note("0/200 in the first update");
    bar.update(report_at(100), std::nullopt);
    bar.note("evaluating 3/12 " + std::string(100, 'x'));
    bar.note("");
  };
  const std::string shown = testing::shown_on_terminal(30, [&] { talk(0); });
  const std::string erase = "\r\x1b[K", bar = erase + bar_text(report_at(100), 30);
  EXPECT_EQ(shown, erase + "0/200 in the first update" + bar + erase + "evaluating 3/12 xxxxxxxxxxxxx" + bar +
                       erase);
  EXPECT_EQ(testing::shown_on_terminal(30, [&] { talk(1); }), "");
}

}  // namespace
}  // namespace duoka::train
