// SPDX-License-Identifier: Apache-2.0
// Two ranks started by hand, as on two machines, with one thing that differs: both say what, before any
// update.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no port for the test");
  ::close(fd);
  return std::to_string(ntohs(address.sin_port));
}

class SameStartTest : public ::testing::Test {
 protected:
  RunOptions as_rank(int rank) const {
    return {.environment = {"RANK=" + std::to_string(rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                            "MASTER_PORT=" + port_}};
  }

  /// Both ranks' outcomes, of which rank 1 alone is given `words`.
  std::pair<Outcome, Outcome> run(const Words& words) const {
    Words more{"max_steps=2"};
    Running zero(shop_.train("out", more), as_rank(0));
    more.insert(more.end(), words.begin(), words.end());
    Running one(shop_.train("out", more), as_rank(1));
    return {zero.wait(), one.wait()};
  }

  void expect_refused(const Words& words, const std::string& says) const {
    const auto [zero, one] = run(words);
    for (const Outcome& outcome : {zero, one}) {
      EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
      EXPECT_THAT(lines_with(outcome.err, "error: ConfigError on rank"), SizeIs(1)) << outcome.all();
      EXPECT_THAT(outcome.err, ContainsRegex("the ranks were started with different things: " + says));
      EXPECT_THAT(printed_losses(outcome.err), IsEmpty());
    }
  }

  Workshop shop_;
  std::string port_ = free_port();
};

TEST_F(SameStartTest, AnotherOptionIsNamed) {
  expect_refused({"learning_rate=0.25"}, "learning_rate is 0.25 on rank 1 and 5e-05 on rank 0");
}

TEST_F(SameStartTest, AnotherLayoutIsNamedBeforeGroupsAreMade) {
  expect_refused({"tensor_parallel_size=2"}, "tensor_parallel_size is 2 on rank 1 and 1 on rank 0");
}

TEST_F(SameStartTest, AnotherModelIsNamedByItsFile) {
  fs::copy(Workshop::case_file("models/tiny-llama"), shop_ / "model", fs::copy_options::recursive);
  std::fstream weights(shop_ / "model/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-1, std::ios::end);
  weights.put('\x3d');
  weights.close();
  expect_refused({"model_name_or_path=" + (shop_ / "model").string()},
                 "model file model.safetensors is [0-9,]+ bytes, hash .* on rank 1 and [0-9,]+ bytes, hash");
}

TEST_F(SameStartTest, OtherDataIsNamed) {
  expect_refused({"dataset=" + shop_.check_row().string()}, "training data .* on rank 1");
}

TEST_F(SameStartTest, TheSameModelElsewhereIsTheSame) {
  fs::copy(Workshop::case_file("models/tiny-llama"), shop_ / "model", fs::copy_options::recursive);
  fs::copy(Workshop::case_file("rows7.jsonl"), shop_ / "rows.jsonl");
  const auto [zero, one] =
      run({"model_name_or_path=" + (shop_ / "model").string(), "dataset=" + (shop_ / "rows.jsonl").string(),
           "cache_dir=" + (shop_ / "another").string()});
  EXPECT_EQ(zero.exit_code, 0) << zero.all();
  EXPECT_EQ(one.exit_code, 0) << one.all();
  EXPECT_THAT(printed_losses(zero.err), SizeIs(2));
}

}  // namespace
}  // namespace duoka::testing
