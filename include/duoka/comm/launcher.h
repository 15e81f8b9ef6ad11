// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "duoka/comm/world.h"

namespace duoka::comm {

struct LaunchOptions {
  /// Program to run; "" is this one (/proc/self/exe).
  std::string program = {};
  /// Added to the environment of each rank, "NAME=value".
  std::vector<std::string> environment = {};
  /// Gives each rank its own share of the cores this process may use.
  bool pin_cores = false;
  /// After the first failure the others may end by themselves for so long, before SIGTERM.
  std::chrono::milliseconds grace = std::chrono::seconds(3);
  /// From SIGTERM (the launcher's own, or one forwarded after a failure) to SIGKILL.
  std::chrono::milliseconds kill_after = std::chrono::seconds(5);
};

/// Starts `num_ranks` ranks on this machine as child processes of `arguments` (argv[1]…), waits for all,
/// and returns the exit code: 0, that of the rank that failed first, or 128 + signal for one killed.
///
/// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, unless set,
/// OMP_NUM_THREADS (cores / ranks). The port is free and already held, so runs never clash. Only rank 0's
/// stdout passes; stderr of all passes; stdin is empty. SIGINT, SIGTERM and SIGHUP are sent on once to each
/// rank. The culprit's error block is shown once, on stderr: a peer's "connection closed" is never preferred
/// to the failure that caused it. No child outlives the launcher, however that ends. Throws SystemError when
/// a process cannot be started.
int launch(int num_ranks, const std::vector<std::string>& arguments, const LaunchOptions& options = {});

/// The same with ranks that are copies of this process (fork) and run `body`, whose result is their exit
/// code. They have at once what has been loaded here, libtorch above all (0.2 s of a processor for each).
/// Their threads for computing are OMP_NUM_THREADS. Call stay_single_threaded() before anything is computed;
/// no card may have been used either. `options.program` is not read. Throws StateError when this process has
/// threads.
int launch_copies(int num_ranks, const std::function<int()>& body, const LaunchOptions& options = {});

/// Keeps libtorch from starting threads in this process, of which a copy would have none.
void stay_single_threaded();

/// Throws the ConfigError of `--cards N` in a process of ranks that `world`'s launcher has started already.
[[noreturn]] void refuse_cards(int num_cards, const World& world);

/// True in a process that launch() started.
bool is_launched();

/// What a failure looks like to the user: kind, rank when there are several, message.
/// Returns the process's exit code for it through `exit_code`: duoka::Error's own, 1 for any other.
std::string error_block(const std::exception& error, int rank, int num_ranks, int& exit_code);

/// Runs `body` and returns its exit code; an exception becomes the error block and the exit code of its
/// kind. The block goes to the launcher where there is one (it shows that of the culprit only), else to
/// stderr.
int run_rank(int rank, int num_ranks, const std::function<int()>& body);

}  // namespace duoka::comm
