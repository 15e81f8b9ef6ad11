// SPDX-License-Identifier: Apache-2.0
#include "support/two_hosts.h"

#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace duoka::testing {

namespace {

using Words = std::vector<std::string>;

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Starts a process that keeps a namespace alive. Bounded, in case it outlives the test.
std::unique_ptr<Running> hold(const std::string& program, Words arguments) {
  arguments.insert(arguments.end(), {"sleep", "900"});
  auto holder = std::make_unique<Running>(arguments, RunOptions{.program = program});
  // It has become `sleep` when its namespaces are there.
  const std::string name_file = "/proc/" + std::to_string(holder->pid()) + "/comm";
  for (int i = 0; i < 12'000 && holder->err().empty(); ++i) {
    if (first_line_of(name_file) == "sleep") return holder;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw std::runtime_error("no network namespace can be made here: " + holder->err());
}

void need(const std::string& program, const std::string& package) {
  if (find_program(program).empty())
    throw std::runtime_error(program + " is not installed (" + package + ")");
}

}  // namespace

TwoHosts::TwoHosts() {
  need("ip", "iproute2");
  need("unshare", "util-linux");
  need("nsenter", "util-linux");
  // Users that are root in a user namespace of their own may make networks in it; the second network is made
  // in the same one, so that a cable can join them.
  holders_[0] = hold("unshare", {"-rn"});
  Words second = entering(0, "unshare");
  second.emplace_back("-n");
  holders_[1] = hold("nsenter", second);
  for (const int host : {0, 1}) {
    configure(host, {"link", "set", "lo", "up"});
    // Before the cable, so that whoever takes the first card there is takes this one.
    configure(host, {"link", "add", "nowhere0", "type", "veth", "peer", "name", "nowhere1"});
    configure(host, {"addr", "add", "10.66.0.1/24", "dev", "nowhere0"});
    configure(host, {"link", "set", "nowhere0", "up"});
    configure(host, {"link", "set", "nowhere1", "up"});
  }
  configure(0, {"link", "add", "cable0", "type", "veth", "peer", "name", "cable0", "netns",
                std::to_string(holders_[1]->pid())});
  for (const int host : {0, 1}) {
    configure(host, {"addr", "add", address(host) + "/24", "dev", "cable0"});
    configure(host, {"link", "set", "cable0", "up"});
  }
}

std::string TwoHosts::address(int host) { return "10.87.0." + std::to_string(host + 1); }

Words TwoHosts::entering(int host, const std::string& program) const {
  const std::string pid = std::to_string(holders_.at(static_cast<size_t>(host))->pid());
  return {"-t", pid, "-U", "-n", "--preserve-credentials", program};
}

void TwoHosts::configure(int host, const Words& ip_arguments) const {
  Words words = entering(host, "ip");
  words.insert(words.end(), ip_arguments.begin(), ip_arguments.end());
  const Outcome outcome = run_duoka(words, {.program = "nsenter"});
  if (outcome.exit_code == 0) return;
  std::ostringstream what;
  what << "ip";
  for (const std::string& word : ip_arguments) what << ' ' << word;
  throw std::runtime_error(what.str() + " is refused here: " + outcome.err);
}

std::unique_ptr<Running> TwoHosts::start(int host, const Words& arguments, RunOptions options) const {
  Words words = entering(host, options.program.empty() ? duoka_binary() : options.program);
  words.insert(words.end(), arguments.begin(), arguments.end());
  options.program = "nsenter";
  return std::make_unique<Running>(words, std::move(options));
}

int64_t TwoHosts::sent_bytes(int host) const {
  std::ifstream file("/proc/" + std::to_string(holders_.at(static_cast<size_t>(host))->pid()) + "/net/dev");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string card;
    words >> card;
    if (card != "cable0:") continue;
    // Eight counts of what came in are before those of what went out.
    int64_t count = 0;
    for (int i = 0; i <= 8; ++i) words >> count;
    return count;
  }
  throw std::runtime_error("the cable is gone");
}

void TwoHosts::unplug() { configure(1, {"link", "set", "cable0", "down"}); }

}  // namespace duoka::testing
