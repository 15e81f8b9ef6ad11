// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <tuple>

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <unistd.h>

#include "comm/child.h"
#include "comm/cores.h"
#include "comm/sockets.h"
#include "duoka/core/error.h"
#include "duoka/core/log.h"
#include "duoka/core/text.h"

extern char** environ;

namespace duoka::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// So many Ctrl-C are meant: the ranks are not asked any more.
constexpr int num_signals_that_kill = 3;

/// Takes the signals that matter here as values instead of interruptions, while it lives.
class SignalQueue final {
 public:
  SignalQueue() {
    sigemptyset(&set_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGTSTP}) sigaddset(&set_, signal);
    // nohup means that a terminal which goes away is nothing to stop for.
    struct sigaction hang_up {};
    sigaction(SIGHUP, nullptr, &hang_up);
    if (hang_up.sa_handler != SIG_IGN) sigaddset(&set_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set_, &mask_before_);
    // Where a parent left it ignored, the kernel would take the children's exit codes away.
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &by_default, &child_action_before_);
  }
  ~SignalQueue() {
    sigaction(SIGCHLD, &child_action_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// The next signal, or 0 after a while without one.
  int next() const {
    const timespec patience{.tv_sec = 0, .tv_nsec = 100'000'000};
    const int signal = sigtimedwait(&set_, nullptr, &patience);
    return std::max(signal, 0);
  }
  const sigset_t& mask_before() const { return mask_before_; }

 private:
  sigset_t set_;
  sigset_t mask_before_;
  struct sigaction child_action_before_ {};
};

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? text("SIG", name) : std::to_string(signal);
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

/// The launcher's environment without `names`, which the ranks get anew.
std::vector<std::string> environment_without(const std::vector<std::string_view>& names) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    if (std::ranges::find(names, variable.substr(0, variable.find('='))) == names.end())
      out.emplace_back(variable);
  }
  return out;
}

std::vector<std::string> rank_environment(int rank, int num_ranks, int port, int listen_fd,
                                          const LaunchOptions& options) {
  auto out = environment_without({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                                  "MASTER_PORT", "DUOKA_LAUNCHED", "DUOKA_LISTEN_FD", "DUOKA_REPORT_FD",
                                  "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID"});
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, int>>{{"RANK", rank},
                                                          {"WORLD_SIZE", num_ranks},
                                                          {"LOCAL_RANK", rank},
                                                          {"LOCAL_WORLD_SIZE", num_ranks},
                                                          {"MASTER_PORT", port},
                                                          {"DUOKA_LAUNCHED", 1}})
    out.push_back(text(name, "=", value));
  out.emplace_back("MASTER_ADDR=127.0.0.1");
  if (rank == 0) out.push_back(text("DUOKA_LISTEN_FD=", listen_fd));
  if (!is_set("OMP_NUM_THREADS"))
    out.push_back(text("OMP_NUM_THREADS=", std::max(1, usable_cores() / num_ranks)));
  out.insert(out.end(), options.environment.begin(), options.environment.end());
  return out;
}

std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw SystemError(text("cannot find this program's file in /proc/self/exe: ", error.message()));
  return path;
}

int num_threads_here() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return static_cast<int>(std::distance(begin(threads), end(threads)));
}

/// A rank's work in a copy of the launcher. libgomp and MKL read OMP_NUM_THREADS when the launcher was
/// loaded.
std::function<int()> with_own_threads(const std::function<int()>& body) {
  return [body] {
    at::set_num_threads(std::max(1, std::atoi(std::getenv("OMP_NUM_THREADS"))));
    return body();
  };
}

/// What all ranks run: a program, or a function.
struct RankWork {
  std::string program = {};
  std::vector<std::string> arguments = {};
  std::function<int()> body = {};
};

/// The ranks of one run, from start to exit code.
class Job final {
 public:
  Job(int num_ranks, const RankWork& work, const LaunchOptions& options)
      : num_ranks_(num_ranks), options_(options) {
    // Held from here to rank 0's start: two runs never get the same port.
    const int listen_fd = listen_on("127.0.0.1", 0);
    const auto cores = allowed_cores();
    for (int rank = 0; rank < num_ranks; ++rank) {
      ChildSetup setup{
          .body = work.body,
          .program = work.program,
          .arguments = work.arguments,
          .environment = rank_environment(rank, num_ranks, port_of(listen_fd), listen_fd, options),
          .cores = {},
          .has_stdout = rank == 0,
          .inherited_fd = rank == 0 ? listen_fd : -1,
          .closed_fd = rank == 0 ? -1 : listen_fd,
          .signal_mask = signals_.mask_before()};
      if (options.pin_cores) setup.cores = share_of_cores(cores, rank, num_ranks);
      children_.emplace_back(rank, std::move(setup));
    }
    ::close(listen_fd);
  }

  int run() {
    while (is_anyone_running()) {
      handle(signals_.next());
      collect();
      stop_the_rest_in_time();
    }
    return conclude();
  }

 private:
  bool is_anyone_running() const {
    return std::ranges::any_of(children_, [](const Child& child) { return child.is_running(); });
  }

  void send_all(int signal) const {
    for (const Child& child : children_) child.send(signal);
  }

  void handle(int signal) {
    if (signal == SIGTSTP) {
      send_all(SIGSTOP);
      ::raise(SIGSTOP);
      send_all(SIGCONT);  // here again once the shell continues this process
    } else if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) {
      forwarded_ = signal;
      send_all(++num_forwarded_ >= num_signals_that_kill ? SIGKILL : signal);
    }
  }

  void collect() {
    for (Child& child : children_) {
      if (!child.has_just_ended() || child.exit_code() == 0 || stopping_since_) continue;
      failed_.push_back(&child);
      if (!failing_since_) failing_since_ = Clock::now();
    }
  }

  void stop_the_rest_in_time() {
    const auto now = Clock::now();
    if (failing_since_ && !stopping_since_ && now - *failing_since_ >= options_.grace) {
      stopping_since_ = now;
      send_all(SIGTERM);
    }
    if (stopping_since_ && now - *stopping_since_ >= options_.kill_after) send_all(SIGKILL);
  }

  /// A stop that was asked for, then a failure about a peer, count only where there is no other; then the
  /// earliest.
  const Child& culprit() const {
    const auto order = [](const Child* child) {
      return std::tuple(has_stopped_as_told(*child), child->report() && child->report()->is_echo,
                        child->failure_nanoseconds());
    };
    return **std::ranges::min_element(failed_, {}, order);
  }

  int conclude() const {
    if (failed_.empty()) return 0;
    const Child& first = culprit();
    Log().status("");
    if (!has_stopped_as_told(first)) Log().info(block_of(first));
    return first.exit_code();
  }

  /// It ended by itself after a signal to stop, which was sent on to it or to it alone, and has said so.
  static bool has_stopped_as_told(const Child& child) {
    constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP};
    return child.fatal_signal() == 0 && !child.report() &&
           std::ranges::find(stop_signals, child.exit_code() - 128) != stop_signals.end();
  }

  std::string block_of(const Child& child) const {
    if (child.report()) return child.report()->block;
    const std::string who = text("rank ", child.rank(), " of ", num_ranks_);
    const int signal = child.fatal_signal();
    if (signal == 0)
      return text("error: ", who, " ended with exit code ", child.exit_code(), " and left no message");
    if (signal == forwarded_) return text("stopped by ", signal_name(signal));
    const char* hint = signal == SIGKILL ? "; the system does this when memory runs out (see dmesg)" : "";
    return text("error: ", who, " (process ", child.pid(), ") was killed by signal ", signal, " (",
                signal_name(signal), ")", hint);
  }

  int num_ranks_;
  LaunchOptions options_;
  SignalQueue signals_;
  std::vector<Child> children_;
  std::vector<const Child*> failed_;
  std::optional<Clock::time_point> failing_since_;
  std::optional<Clock::time_point> stopping_since_;
  int forwarded_ = 0;
  int num_forwarded_ = 0;
};

int launch(int num_ranks, const RankWork& work, const LaunchOptions& options) {
  if (num_ranks < 1) throw ConfigError(text("cards = ", num_ranks, " makes no run; wanted at least 1"));
  return Job(num_ranks, work, options).run();
}

}  // namespace

int launch(int num_ranks, const std::vector<std::string>& arguments, const LaunchOptions& options) {
  std::string program = options.program.empty() ? own_program() : options.program;
  if (::access(program.c_str(), X_OK) != 0)
    throw SystemError(text("cannot run '", program, "': ", std::strerror(errno)));
  return launch(num_ranks, RankWork{.program = std::move(program), .arguments = arguments}, options);
}

int launch_copies(int num_ranks, const std::function<int()>& body, const LaunchOptions& options) {
  if (const int threads = num_threads_here(); threads > 1)
    throw StateError(text("launch_copies: this process has ", counted(threads, "thread"),
                          ", of which a copy would have one; start ranks before anything is computed"));
  return launch(num_ranks, RankWork{.body = with_own_threads(body)}, options);
}

void stay_single_threaded() { at::set_num_threads(1); }

void refuse_cards(int num_cards, const World& world) {
  throw ConfigError(text("--cards ", num_cards, " under ", launcher_name(world.launcher),
                         ", which has started ", counted(world.size, "rank"), " already; leave --cards out"));
}

}  // namespace duoka::comm
