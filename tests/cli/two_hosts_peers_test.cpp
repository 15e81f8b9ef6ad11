// SPDX-License-Identifier: Apache-2.0
// One run on two hosts, started by a torchrun on each.
#include <gmock/gmock.h>

#include "cli/two_hosts.h"

namespace duoka::testing {
namespace {

using ::testing::SizeIs;

class TorchrunOnTwoHosts : public TwoHostsTest {
 protected:
  /// What torchrun on host 0 said; both have ended well. meeting: how the two find each other.
  Outcome run(const std::string& output, const std::vector<Words>& meeting) const {
    std::vector<std::unique_ptr<Running>> agents;
    for (const int host : {0, 1}) {
      Words words{"--nnodes=2", "--nproc-per-node=2"};
      const Words& own = meeting[static_cast<size_t>(host)];
      words.insert(words.end(), own.begin(), own.end());
      words.insert(words.end(), {"--no-python", duoka_binary()});
      const Words command = train(output, 4);
      words.insert(words.end(), command.begin(), command.end());
      agents.push_back(hosts_->start(host, words, {.program = torchrun_.string()}));
    }
    const Outcome first = agents[0]->wait(), second = agents[1]->wait();
    EXPECT_EQ(first.exit_code, 0) << first.all();
    EXPECT_EQ(second.exit_code, 0) << second.all();
    return first;
  }

  std::filesystem::path torchrun_ =
      fixture("").parent_path().parent_path().parent_path() / ".deps/peers/bin/torchrun";
};

TEST_F(TorchrunOnTwoHosts, GivesTheBitsOfOneHost) {
  if (!std::filesystem::exists(torchrun_))
    GTEST_SKIP() << "no " << torchrun_ << "; scripts/test --peers installs it";
  Words one = train("one", 4);
  one.insert(one.end(), {"--cards", "4"});
  const Outcome alone = run_duoka(one);
  ASSERT_EQ(alone.exit_code, 0) << alone.all();

  const std::string address = TwoHosts::address(0);
  const std::vector<Words> by_number{{"--node-rank=0", "--master-addr=" + address, "--master-port=29500"},
                                     {"--node-rank=1", "--master-addr=" + address, "--master-port=29500"}};
  const Words endpoint{"--rdzv-backend=c10d", "--rdzv-endpoint=" + address + ":29600", "--rdzv-id=7"};
  std::vector<Words> by_endpoint{endpoint, endpoint};
  for (const int host : {0, 1}) {
    // The hosts of this test share one name, which neither address belongs to: torchrun cannot tell itself.
    Words& own = by_endpoint[static_cast<size_t>(host)];
    own.push_back("--local-addr=" + TwoHosts::address(host));
    own.push_back("--rdzv-conf=is_host=" + std::to_string(1 - host));
  }

  for (const auto& [name, meeting] : {std::pair("number", by_number), {"endpoint", by_endpoint}}) {
    run(name, meeting);
    EXPECT_TRUE(adapter(name) == adapter("one")) << name;
  }
}

}  // namespace
}  // namespace duoka::testing
