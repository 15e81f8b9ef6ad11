// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/inspect.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tiny_tokenizer.h"

namespace duoka::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Inspect : public ::testing::Test {
 protected:
  std::string report(const std::string& file, int64_t cutoff_len, InspectOptions options = {}) {
    options.cutoff_len = cutoff_len;
    std::ostringstream out;
    inspect(out, RowSet(data_.open({file}, TinyData::rules(cutoff_len))), data_.tokenizer(), options);
    return out.str();
  }
  TinyData data_;
};

TEST_F(Inspect, TrainedTokensStandInBrackets) {
  const std::string out = report("rows7.jsonl", 2048);
  EXPECT_THAT(out, HasSubstr("row 0: 18 tokens, 3 trained\n"));
  EXPECT_THAT(out, HasSubstr("lengths in tokens, after the cut\n      17 -      20"));
  EXPECT_THAT(out,
              HasSubstr("<|im_start|>user⏎the cat<|im_end|><|im_start|>assistant⏎[s][at][<|im_end|>]\n"));
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(out.find('\r'), std::string::npos);
}

TEST_F(Inspect, ColoursOnATerminal) {
  InspectOptions options;
  options.has_colors = true;
  EXPECT_THAT(report("rows7.jsonl", 2048, options), HasSubstr("\x1b[1;32m"));
}

// Case A05: read 8, used N, refused 8-N, with a reason each.
TEST_F(Inspect, CaseA05SummaryAndReasons) {
  const std::string out = report("A05_sharegpt_turns.jsonl", 2048);
  EXPECT_THAT(out, HasSubstr("rows read 8, used 6, refused 2"));
  EXPECT_THAT(out,
              HasSubstr("A05_sharegpt_turns.jsonl:6: refused: key 'from' of turn 1: unknown role 'hummany'"));
  EXPECT_THAT(out, HasSubstr("A05_sharegpt_turns.jsonl:7: refused: an empty conversation"));
}

TEST_F(Inspect, CutAndFill) {
  InspectOptions options;
  options.pack.is_packing = true;
  options.pack.tokens_per_stream = 66;  // 32 + 18 + 16 tokens in one stream.
  const std::string out = report("A06_cutoff.jsonl", 32, options);
  EXPECT_THAT(out, HasSubstr("1 cut at 32, the longest had 137"));
  EXPECT_THAT(out, HasSubstr("packing fills 100.0 % of 66 tokens"));
  EXPECT_THAT(out, HasSubstr("3 rows, 66 tokens, 21 trained"));
}

TEST_F(Inspect, ListsNoMoreRefusalsThanAsked) {
  InspectOptions options;
  options.num_refusals = 1;
  const std::string out = report("A05_sharegpt_turns.jsonl", 2048, options);
  EXPECT_THAT(out, Not(HasSubstr(":7: refused")));
  EXPECT_THAT(out, HasSubstr("… and 1 more refused"));
}

TEST_F(Inspect, NothingReachesTheTerminalRaw) {
  const auto shown = [&](const std::string& words) {
    const auto ids = data_.tokenizer().encode(words).ids;
    return marked_tokens(ids, std::vector<int32_t>(ids.size(), -100), data_.tokenizer(), false, 100);
  };
  EXPECT_THAT(shown("a\x1b[31mb\nc"), HasSubstr("a\\x1b[31mb⏎c"));
  EXPECT_EQ(shown("\xc2\x9b").find("\xc2\x9b"), std::string::npos);
}

TEST_F(Inspect, LongRowsLoseTheirMiddle) {
  const std::vector<int32_t> ids(100, 308);
  const std::vector<int32_t> labels(100, -100);
  EXPECT_THAT(marked_tokens(ids, labels, data_.tokenizer(), false, 10), HasSubstr(" … 90 tokens … "));
  EXPECT_THAT(marked_tokens({ids.data(), 1}, {labels.data(), 1}, data_.tokenizer(), false, 10),
              Not(HasSubstr("…")));
  const std::vector<int32_t> unknown = {99999, -3};
  EXPECT_EQ(marked_tokens(unknown, unknown, data_.tokenizer(), false, 10), "[<id 99999>][<id -3>]");
}

}  // namespace
}  // namespace duoka::data
