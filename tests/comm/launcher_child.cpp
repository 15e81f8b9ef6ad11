// SPDX-License-Identifier: Apache-2.0
// A small program of many cards for launcher_test.cpp and mpirun_test.cpp: launcher_child <cards> <mode>
// [argument …], or launcher_child rank <mode> where something else starts the ranks. Each rank leaves a file
// <PIDS>/<rank> with its process id where the variable PIDS names a folder. With the variable COPIES ranks
// are copies of the launcher, else programs.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <unistd.h>

#include "comm/cores.h"
#include "duoka/comm/collectives.h"
#include "duoka/comm/launcher.h"
#include "duoka/core/error.h"

namespace {

/// One write a line, so that lines of several ranks do not mix.
void say(const std::string& line) { std::cerr << line + "\n"; }

using namespace duoka;
using namespace duoka::comm;

std::atomic<int> signal_seen{0};

void leave_pid(int rank) {
  const char* folder = std::getenv("PIDS");
  if (folder == nullptr) return;
  const std::string path = std::string(folder) + "/" + std::to_string(rank);
  std::ofstream(path + ".part") << getpid() << std::endl;
  std::rename((path + ".part").c_str(), path.c_str());
}

/// Sums ranks + 1 over all.
int64_t sum_of_ranks(const Group& group) {
  at::Tensor x = at::full({1}, group.rank() + 1, at::kLong);
  all_reduce(x, Op::sum, group);
  return x.item<int64_t>();
}

void wait_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

int show_environment(const World& world, const Group& group) {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (std::getenv("COPIES") != nullptr && at::get_num_threads() != std::atoi(threads))
    throw StateError("other threads");
  const auto all = all_gather_text(std::string(threads != nullptr ? threads : "none") + " threads on " +
                                       std::to_string(allowed_cores().size()) + " cores",
                                   group);
  if (world.rank == 0) {
    for (const std::string& line : all) std::cout << line << "\n";
    std::cout << "stdin ends: " << (std::cin.get() == EOF) << "\n";
  }
  std::cout << "stdout of rank " << world.rank << "\n";
  say("stderr of rank " + std::to_string(world.rank));
  return 0;
}

int wait_for_signal(const World& world) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int seen) { signal_seen = seen; });
  leave_pid(world.rank);
  while (signal_seen == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  say("rank " + std::to_string(world.rank) + " saw signal " + std::to_string(signal_seen));
  return 0;
}

/// Rank 1 fails in the given way, the others wait for it in a collective.
int fail(const std::string& how, const World& world, const Group& group) {
  if (world.rank == 1) {
    if (how == "error") throw DataError("rows.jsonl:7: no closing brace");
    if (how == "exit") return 9;
    if (how == "kill") std::raise(SIGKILL);
    if (how == "segv") {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would end the program by an exit code
      std::raise(SIGSEGV);
    }
  }
  barrier(group);
  return 0;
}

/// Collectives large enough for near memory, each with what must come out.
void check_near(const Group& group) {
  const int64_t n = group.size();
  const auto mine = [&](int64_t rank) {
    return at::arange(n * 1'000'003, at::kInt).mul_(rank + 1).view({n, -1});
  };
  at::Tensor sum = at::zeros_like(mine(0));
  for (int64_t rank = 0; rank < n; ++rank) sum += mine(rank);
  at::Tensor x = mine(group.rank()), rows = at::empty_like(x), row = at::empty_like(x[0]);
  const auto check = [&](const at::Tensor& found, const at::Tensor& wanted, const char* what) {
    if (!at::equal(found, wanted)) throw StateError(std::string("wrong result of ") + what);
  };
  reduce_scatter_into(row, x, group);
  check(row, sum[group.rank()], "reduce_scatter");
  all_gather_into(rows, row, group);
  check(rows, sum, "all_gather");
  all_to_all_into(rows, x, group);
  for (int64_t rank = 0; rank < n; ++rank) check(rows[rank], mine(rank)[group.rank()], "all_to_all");
  broadcast(rows, 1, group);
  check(rows[0], mine(0)[1], "broadcast");
  all_reduce(x, Op::sum, group);
  check(x, sum, "all_reduce");
}

/// `how`: rank 1 is killed or stopped in the middle of large sums; "": all is well.
int near(const std::string& how, const World& world, const Group& group) {
  check_near(group);
  if (how.empty()) {
    if (world.rank == 0) std::cout << "near memory: all equal over " << group.transport() << "\n";
    barrier(group);
    return 0;
  }
  if (world.rank == 1)
    std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      std::raise(how == "kill" ? SIGKILL : SIGSTOP);
    }).detach();
  at::Tensor x = at::zeros({16 << 20});
  while (true) all_reduce(x, Op::sum, group);
}

int rank_main(const std::vector<std::string>& arguments) {
  const World world = World::from_environment();
  const std::string& mode = arguments.at(0);
  if (mode == "wait") return wait_for_signal(world);
  leave_pid(world.rank);
  if (mode == "idle" || (mode == "late" && world.rank == 1)) wait_for_ever();
  const std::string how = arguments.size() > 1 ? arguments[1] : "";
  const int patience = mode == "late" ? 1 : how == "stop" ? 5 : 1800;
  const Group group = connect(world, {.timeout = std::chrono::seconds(patience)});
  if (mode == "sum") {
    const int64_t sum = sum_of_ranks(group);
    if (world.rank == 0) std::cout << "sum " << sum << "\n";
    return 0;
  }
  if (mode == "environment") return show_environment(world, group);
  if (mode == "fail") return fail(how, world, group);
  if (mode == "near") return near(how, world, group);
  if (mode == "stubborn") {
    if (world.rank == 1) throw ConfigError("rank 1 gives up");
    std::signal(SIGTERM, SIG_IGN);
    wait_for_ever();
  }
  throw StateError("launcher_child: unknown mode " + mode);
}

int run_as_rank(const std::vector<std::string>& arguments) {
  World world;
  const int trouble = run_rank(0, 1, [&] {
    world = World::from_environment();
    return 0;
  });
  if (trouble != 0) return trouble;
  return run_rank(world.rank, world.size, [&] {
    return rank_main({arguments.begin() + 1, arguments.end()});
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  // "rank" in place of a number: one started by torchrun or mpirun.
  if (is_launched() || arguments.at(0) == "rank") return run_as_rank(arguments);
  return run_rank(0, 1, [&] {
    LaunchOptions options;
    options.pin_cores = std::getenv("PIN") != nullptr;
    // Short only where a rank does not end by itself: a busy machine must not stop one that would.
    const bool is_waited_for =
        arguments.at(1) == "stubborn" || arguments.at(1) == "late" || arguments.back() == "stop";
    options.grace = is_waited_for ? std::chrono::milliseconds(1500) : std::chrono::minutes(10);
    options.kill_after = std::chrono::milliseconds(500);
    if (std::getenv("COPIES") != nullptr) {
      std::thread other;
      if (arguments.at(1) == "threads") other = std::thread(wait_for_ever);
      if (other.joinable()) other.detach();
      return launch_copies(
          std::stoi(arguments.at(0)), [&] { return run_as_rank(arguments); }, options);
    }
    return launch(std::stoi(arguments.at(0)), arguments, options);
  });
}
