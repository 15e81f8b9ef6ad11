// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/text.h"

#include <limits>

#include <gtest/gtest.h>

namespace duoka {
namespace {

TEST(Text, StreamsItsParts) { EXPECT_EQ(text("tp = ", 8, " of ", 2.5, '!'), "tp = 8 of 2.5!"); }

TEST(Join, PutsSeparatorsBetween) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({"a"}), "a");
  EXPECT_EQ(join({"a", "b", "c"}, " or "), "a or b or c");
}

TEST(Nearest, FindsTypingMistakesAndNothingElse) {
  const std::vector<std::string> keys{"lora_rank", "lora_alpha", "num_train_epochs", "bf16"};
  EXPECT_EQ(nearest("lora_ranl", keys), "lora_rank");
  EXPECT_EQ(nearest("num-epochs", keys), "");  // too far to be sure
  EXPECT_EQ(nearest("num-train-epochs", keys), "num_train_epochs");
  EXPECT_EQ(nearest("fb16", keys), "bf16");  // neighbours swapped count once
  EXPECT_EQ(nearest("temperature", keys), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("lora_rank", {"lora_rank_", "lora_rank"}), "lora_rank") << "the nearest, not the first";
  EXPECT_EQ(nearest("bf8", {"bf6", "bf7"}), "bf6") << "of equals the first";
  EXPECT_EQ(nearest("bf61", {"bf16", "bf32"}), "bf16");
}

TEST(Printable, StaysOneLineAndNoEscapeSequence) {
  EXPECT_EQ(printable("weight 你好"), "weight 你好");
  EXPECT_EQ(printable(std::string_view("a\nb\x1b[2J\0c\x7f", 10)), "a\\x0Ab\\x1B[2J\\x00c\\x7F");
  EXPECT_EQ(printable("a\u009b2Jb\u0080\u009f\u00a0é"), "a\\xC2\\x9B2Jb\\xC2\\x80\\xC2\\x9F\u00a0é")
      << "8-bit controls";
  EXPECT_EQ(printable("\xC2"), "\xC2");
  EXPECT_EQ(printable("abcd", 4), "abcd");
  EXPECT_EQ(printable("abcdef", 4), "abcd…");
  EXPECT_EQ(printable("abc", 0), "…");
  EXPECT_EQ(printable("ab你好", 5), "ab你…");
  EXPECT_EQ(printable("ab你好", 7), "ab你…");    // no half character
  EXPECT_EQ(printable("\x80\x80\x80", 2), "…");  // nothing but later bytes
}

TEST(BytesText, ChoosesItsUnit) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(int64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<int64_t>::max()), "8192.0 PiB");
  EXPECT_EQ(bytes_text(-2048), "-2.0 KiB");
}

TEST(DurationText, RoundsToSeconds) {
  EXPECT_EQ(duration_text(0.4), "0:00");
  EXPECT_EQ(duration_text(83.0), "1:23");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(4000), "1:06:40");
  EXPECT_EQ(duration_text(3599.6), "1:00:00");
  EXPECT_EQ(duration_text(360000), "100:00:00");
  EXPECT_EQ(duration_text(-5), "0:00");
}

TEST(CountText, GroupsThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(123456), "123,456");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(-999), "-999");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
}

TEST(Counted, NounFollowsTheNumber) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(2048, "token"), "2,048 tokens");
  EXPECT_EQ(counted(1, "entry"), "1 entry");
  EXPECT_EQ(counted(3, "entry"), "3 entries");
  EXPECT_EQ(counted(3, "key"), "3 keys");
  EXPECT_EQ(counted(4, "micro-batch"), "4 micro-batches");
}

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("", 4, 10), "");
  EXPECT_EQ(wrapped("one two three", 0, 100), "one two three");
  EXPECT_EQ(wrapped("one two three", 0, 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 4, 11), "one two\n    three");
  EXPECT_EQ(wrapped("one two three", 4, 10), "one\n    two\n    three");
  EXPECT_EQ(wrapped("a incomprehensible b", 2, 8), "a\n  incomprehensible\n  b");
  EXPECT_EQ(wrapped("one  two", 0, 100), "one  two");
  EXPECT_EQ(wrapped("one  two", 0, 5), "one\ntwo");
}

}  // namespace
}  // namespace duoka
