// SPDX-License-Identifier: Apache-2.0
// Ranks that were started with different things are told so, all in the same words.
#include "duoka/comm/agreement.h"

#include <array>
#include <string>

#include <gmock/gmock.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "support/run_ranks.h"

namespace duoka::comm {
namespace {

using test::run_ranks;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// What each of three ranks is told when `facts(rank)` are its own.
template <class Make>
std::array<std::string, 3> refusals(Make&& facts) {
  std::array<std::string, 3> messages;
  run_ranks(3, [&](const Group& group) {
    try {
      require_same(facts(group.rank()), group);
    } catch (const ConfigError& error) {
      messages[static_cast<size_t>(group.rank())] = error.what();
    }
    barrier(group);  // the group is as good as before
  });
  return messages;
}

TEST(Agreement, IsSilentWhereAllIsTheSame) {
  EXPECT_THAT(refusals([](int) { return Facts{{"seed", "42"}, {"empty", ""}}; }), Each(""));
  EXPECT_THAT(refusals([](int) { return Facts{}; }), Each(""));
}

TEST(Agreement, NamesTheRankThatIsAloneWithItsValue) {
  const auto messages = refusals([](int rank) {
    return Facts{{"learning_rate", rank == 1 ? "0.001" : "0.0001"}, {"seed", "42"}};
  });
  EXPECT_THAT(messages, Each(messages[0]));
  EXPECT_THAT(messages[0], HasSubstr("learning_rate is 0.001 on rank 1 and 0.0001 on 2 of the 3 ranks"));
}

TEST(Agreement, NamesRankZeroToo) {
  const auto messages = refusals([](int rank) { return Facts{{"bf16", rank == 0 ? "true" : "false"}}; });
  EXPECT_THAT(messages, Each(HasSubstr("bf16 is true on rank 0 and false on 2 of the 3 ranks")));
}

TEST(Agreement, AKeyThatOthersDoNotHaveIsADifference) {
  const auto messages = refusals([](int rank) { return rank == 2 ? Facts{{"file", ""}} : Facts{}; });
  EXPECT_THAT(messages, Each(HasSubstr("file is '' on rank 2 and not set on 2 of the 3 ranks")));
}

TEST(Agreement, ThreeValuesAreComparedWithRankZeros) {
  const auto messages = refusals([](int rank) { return Facts{{"seed", std::to_string(rank)}}; });
  EXPECT_THAT(messages, Each(HasSubstr("seed is 1 on rank 1 and 0 on rank 0")));
}

/// Where keys end and values begin is no matter of the separators in them.
TEST(Agreement, ValuesMayHoldAnyText) {
  const auto messages = refusals([](int rank) {
    return Facts{{"a", rank == 0 ? "1\n b=2" : "1"}, {"b", "2"}};
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("a is 1\\x0A b=2 on rank 0"), HasSubstr("and 1 on 2 of the"))));
}

}  // namespace
}  // namespace duoka::comm
