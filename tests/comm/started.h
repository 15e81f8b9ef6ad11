// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test_files.h"

namespace duoka::comm {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

inline std::string contents(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

inline std::string child_program() {
  return fs::read_symlink("/proc/self/exe").parent_path() / "comm_launcher_child";
}

/// The launcher of launcher_child (or what `arguments` start with, given as `other_program`) as a process of
/// its own, its outputs in files.
class Started {
 public:
  explicit Started(std::vector<std::string> arguments, const std::vector<std::string>& settings = {},
                   const std::string& other_program = "") {
    fs::create_directory(folder_ / "pids");
    const std::string program = other_program.empty() ? child_program() : other_program;
    if (other_program.empty()) arguments.insert(arguments.begin(), program);
    start_ = Clock::now();
    pid_ = fork();
    if (pid_ != 0) return;
    for (const std::string& setting : settings) putenv(const_cast<char*>(setting.c_str()));
    setenv("PIDS", (folder_ / "pids").c_str(), 1);
    ::close(STDIN_FILENO);  // a run whose stdin is closed must work: all here are such runs
    dup2(open((folder_ / "out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open((folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(126);
  }
  ~Started() {
    if (!is_done_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  void send(int signal) const { kill(pid_, signal); }

  /// Exit code, or minus the signal; -1000 after four minutes, much less than a rank waits for others.
  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::now() - start_ > 240s) return -1000;
      std::this_thread::sleep_for(5ms);
    }
    is_done_ = true;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  std::string out() const { return contents(folder_ / "out"); }
  std::string err() const { return contents(folder_ / "err"); }

  /// Process ids of the ranks, once all `num_ranks` have left theirs.
  std::vector<pid_t> pids(int num_ranks) const {
    std::vector<pid_t> out;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const fs::path file = folder_ / "pids" / std::to_string(rank);
      for (int i = 0; i < 12'000 && !fs::exists(file); ++i) std::this_thread::sleep_for(5ms);
      out.push_back(std::stoi(contents(file)));
    }
    return out;
  }

 private:
  duoka::testing::TemporaryFolder folder_;
  pid_t pid_ = -1;
  Clock::time_point start_;
  bool is_done_ = false;
};

}  // namespace duoka::comm
