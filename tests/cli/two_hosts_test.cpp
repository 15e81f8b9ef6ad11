// SPDX-License-Identifier: Apache-2.0
// One run on two hosts, its ranks started by hand: it gives what one host gives, finds the way to the other
// host by itself, sends between hosts what the layout says, and ends when a host goes away.
#include "cli/two_hosts.h"

#include <map>

#include <gmock/gmock.h>

namespace duoka::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// What a launcher would set for number `local` of `num_local` ranks on each host.
RunOptions as_rank(int host, int local, int num_local, const std::string& port) {
  RunOptions options;
  options.environment = {"RANK=" + std::to_string(host * num_local + local),
                         "WORLD_SIZE=" + std::to_string(2 * num_local),
                         "LOCAL_RANK=" + std::to_string(local),
                         "LOCAL_WORLD_SIZE=" + std::to_string(num_local),
                         "MASTER_ADDR=" + TwoHosts::address(0),
                         "MASTER_PORT=" + port};
  return options;
}

class ByHand : public TwoHostsTest {
 protected:
  /// `num_local` ranks on each host, in rank order.
  std::vector<std::unique_ptr<Running>> start(int num_local, const Words& words,
                                              const std::string& program = {}) const {
    std::vector<std::unique_ptr<Running>> ranks;
    for (const int host : {0, 1})
      for (int local = 0; local < num_local; ++local) {
        RunOptions options = as_rank(host, local, num_local, "29500");  // free: the hosts are new
        options.program = program;
        ranks.push_back(hosts_->start(host, words, options));
      }
    return ranks;
  }
  /// What rank 0 said, after all have ended well.
  static Outcome wait(const std::vector<std::unique_ptr<Running>>& ranks) {
    std::vector<Outcome> outcomes;
    for (const auto& rank : ranks) {
      outcomes.push_back(rank->wait());
      EXPECT_EQ(outcomes.back().exit_code, 0) << outcomes.back().all();
    }
    for (size_t rank = 1; rank < outcomes.size(); ++rank)
      EXPECT_EQ(outcomes[rank].err, "") << "only rank 0 speaks";
    return outcomes.front();
  }
};

TEST_F(ByHand, GivesTheBitsOfOneHost) {
  for (const int num_local : {1, 2}) {
    const int num_ranks = 2 * num_local;
    Words one = train("one", num_ranks, {"overwrite_output_dir=true"});
    one.insert(one.end(), {"--cards", std::to_string(num_ranks)});
    const Outcome alone = run_duoka(one);
    ASSERT_EQ(alone.exit_code, 0) << alone.all();
    const Outcome first = wait(start(num_local, train("two", num_ranks, {"overwrite_output_dir=true"})));
    EXPECT_THAT(first.err, HasSubstr("ranks       " + std::to_string(num_ranks) + " on CPU, over gloo"));
    EXPECT_THAT(printed_losses(first.err), SizeIs(3));
    EXPECT_EQ(printed_losses(first.err), printed_losses(alone.err));
    EXPECT_TRUE(adapter("two") == adapter("one")) << num_local << " ranks on each host";
  }
}

/// Without LOCAL_RANK and LOCAL_WORLD_SIZE ranks that meet elsewhere than on loopback are one a host.
TEST_F(ByHand, RankAndWorldSizeAreEnoughForOneRankAHost) {
  std::vector<std::unique_ptr<Running>> ranks;
  for (const int host : {0, 1}) {
    RunOptions options = as_rank(host, 0, 1, "29500");
    std::erase_if(options.environment, [](const std::string& word) { return word.starts_with("LOCAL_"); });
    ranks.push_back(hosts_->start(host, train("two", 2), options));
  }
  EXPECT_THAT(printed_losses(wait(ranks).err), SizeIs(3));
}

/// Each host has another card before the cable, so this fails where the first card there is is taken. It may
/// still be asked for by name; that one leads nowhere.
TEST_F(ByHand, AnotherCardThanTheOneTowardsRankZeroIsTakenOnRequestOnly) {
  std::vector<std::unique_ptr<Running>> ranks;
  for (const int host : {0, 1}) {
    RunOptions options = as_rank(host, 0, 1, "29500");
    options.environment.emplace_back("GLOO_SOCKET_IFNAME=nowhere0");
    ranks.push_back(hosts_->start(host, train("two", 2, {"ddp_timeout=10"}), options));
  }
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.exit_code, 5) << outcome.all();
    EXPECT_EQ(count_of(outcome.err, "error: "), 1) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("could not connect to its peers from 10.66.0.1"),
                                   ContainsRegex("error: .*GLOO_SOCKET_IFNAME names another")));
  }
}

TEST_F(ByHand, HostThatGoesAwayEndsTheOtherInItsTime) {
  auto ranks = start(1, train("two", 2, {"max_steps=1000000", "ddp_timeout=10"}));
  ASSERT_TRUE(ranks[0]->wait_for_text("step=2 ")) << ranks[0]->err();
  hosts_->unplug();
  const auto unplugged = std::chrono::steady_clock::now();
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.exit_code, 5) << outcome.all();
    EXPECT_EQ(count_of(outcome.err, "error: "), 1) << outcome.err;
    EXPECT_THAT(outcome.err, ContainsRegex("error: CommError on rank [01] of 2: .* after [0-9.]+ s"));
  }
  // The time-out, and time for a machine that is busy.
  EXPECT_LT(std::chrono::steady_clock::now() - unplugged, std::chrono::seconds(60));
}

/// The numbers behind name= in the line that each rank of two_hosts_child wrote.
class HybridTraffic : public ByHand {
 protected:
  struct Sent {
    std::vector<std::map<std::string, int64_t>> ranks;
    int64_t over_cable = 0;  ///< By host 0.
  };
  Sent train_sharded(int num_updates, int shard) const {
    const auto program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "cli_two_hosts_child";
    const Words words{Workshop::case_file("rows7.jsonl").string(),
                      (shop_ / ("out" + std::to_string(num_updates) + "-" + std::to_string(shard))).string(),
                      std::to_string(num_updates), std::to_string(shard)};
    const int64_t before = hosts_->sent_bytes(0);
    Sent sent;
    for (const auto& rank : start(2, words, program.string())) {
      const Outcome outcome = rank->wait();
      EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
      auto& numbers = sent.ranks.emplace_back();
      for (const char* name : {"rows", "model", "head", "shard", "copies", "sums_of_copies"})
        numbers[name] = std::stoll(field(outcome.out, name));
    }
    sent.over_cable = hosts_->sent_bytes(0) - before;
    return sent;
  }
};

TEST_F(HybridTraffic, OnlyGradientsOfRowsGoBetweenHosts) {
  constexpr int few = 2, more = 12;
  const Sent start = train_sharded(few, 2), whole = train_sharded(more, 2);
  for (const auto& rank : whole.ranks) {
    // Between copies: the sum of this rank's rows once an update, and nothing else.
    EXPECT_EQ(rank.at("copies"), more * rank.at("rows"));
    EXPECT_EQ(rank.at("sums_of_copies"), rank.at("copies"));
    EXPECT_EQ(2 * rank.at("rows"), rank.at("model"));
    // Inside a host, in each of two micro-batches: the rows of all parameters twice (of the head once, for
    // it goes back at once), and all gradients.
    EXPECT_EQ(rank.at("shard"), more * 2 * (2 * rank.at("rows") - rank.at("head") / 2 + rank.at("model")));
  }
  // Both ranks of a host send their rows' sums: the model's size an update. Headers, the loss and the ranks'
  // agreements come on top.
  const double an_update = static_cast<double>(whole.over_cable - start.over_cable) / (more - few);
  const auto model = static_cast<double>(whole.ranks[0].at("model"));
  EXPECT_GT(an_update, model);
  EXPECT_LT(an_update, 1.3 * model);
  RecordProperty("cable bytes an update / model bytes", std::to_string(an_update / model));

  // The counts can tell: one copy over all four ranks sends parameters over the cable too.
  const Sent start_shared = train_sharded(few, 4), shared = train_sharded(more, 4);
  EXPECT_EQ(shared.ranks[0].at("copies"), 0);
  EXPECT_GT(static_cast<double>(shared.over_cable - start_shared.over_cable) / (more - few), 2 * an_update);
}

/// The same through the command, with bits that one host gives.
TEST_F(ByHand, HybridShardingGivesTheBitsOfOneHost) {
  const Words sharded{"finetuning_type=full", "zero_stage=3", "zero_shard_size=2"};
  Words one = train("one", 4, {"finetuning_type=full"});
  one.insert(one.end(), {"--cards", "4"});
  const Outcome alone = run_duoka(one);
  ASSERT_EQ(alone.exit_code, 0) << alone.all();
  const Outcome first = wait(start(2, train("two", 4, sharded)));
  EXPECT_EQ(printed_losses(first.err), printed_losses(alone.err));
  EXPECT_TRUE(read_text_file(shop_ / "two/model.safetensors") ==
              read_text_file(shop_ / "one/model.safetensors"));
}

}  // namespace
}  // namespace duoka::testing
