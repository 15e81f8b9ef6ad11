// SPDX-License-Identifier: Apache-2.0
#include "support/run_duoka.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace duoka::testing {

namespace {

constexpr auto poll_interval = std::chrono::milliseconds(5);

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// A file in memory, written at its end. Files, not pipes: nothing has to be read for the command to go on.
int memory_file(const char* name) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  // The kernel does not lock the offset of such a file: ranks that write at once would overwrite each other.
  if (fd < 0 || ::fcntl(fd, F_SETFL, O_APPEND) != 0) fail("memfd_create");
  return fd;
}

std::string read_all(int fd) {
  std::string text(static_cast<size_t>(std::max<off_t>(::lseek(fd, 0, SEEK_END), 0)), '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

/// Size without moving the offset that the command writes at.
std::string read_shared(int fd) {
  const int own = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC);
  if (own < 0) fail("open");
  std::string text = read_all(own);
  ::close(own);
  return text;
}

struct Terminal {
  int master = -1, slave = -1;
};

Terminal open_terminal(int columns) {
  Terminal terminal;
  terminal.master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (terminal.master < 0 || ::grantpt(terminal.master) != 0 || ::unlockpt(terminal.master) != 0)
    fail("posix_openpt");
  terminal.slave = ::open(::ptsname(terminal.master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal.slave < 0) fail("ptsname");
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  ::ioctl(terminal.slave, TIOCSWINSZ, &size);
  return terminal;
}

/// The test's environment with `more` in place of what has the same name.
std::vector<std::string> environment_with(std::vector<std::string> more) {
  const auto is_given = [&](const std::string& name) {
    return std::any_of(more.begin(), more.end(), [&](const auto& m) { return m.starts_with(name + "="); });
  };
  if (!is_given("OMP_NUM_THREADS")) more.emplace_back("OMP_NUM_THREADS=1");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable(*entry);
    if (!is_given(variable.substr(0, variable.find('=')))) more.push_back(variable);
  }
  return more;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::string Outcome::all() const {
  std::ostringstream text;
  text << "exit code " << exit_code << "\n--- stdout\n" << out << "\n--- stderr\n" << err;
  return text.str();
}

std::string duoka_binary() {
  const char* path = std::getenv("DUOKA_BINARY");
  return std::filesystem::absolute(path == nullptr ? "build/release/bin/duoka" : path).string();
}

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0 ? program : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::string file = folder + "/" + program; ::access(file.c_str(), X_OK) == 0) return file;
  return "";
}

Running::Running(const std::vector<std::string>& arguments, RunOptions options)
    : options_(std::move(options)), start_(std::chrono::steady_clock::now()) {
  std::string program = options_.program.empty() ? duoka_binary() : find_program(options_.program);
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = environment_with(options_.environment);
  const auto argv = pointers(words), envp = pointers(environment);
  const int in_fd = memory_file("stdin");
  if (::write(in_fd, options_.input.data(), options_.input.size()) < 0) fail("write");
  ::lseek(in_fd, 0, SEEK_SET);
  Terminal terminal;
  if (options_.terminal_columns > 0) {
    terminal = open_terminal(options_.terminal_columns);
    terminal_fd_ = terminal.master;
  } else {
    out_fd_ = memory_file("stdout");
    err_fd_ = memory_file("stderr");
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(in_fd, STDIN_FILENO);
    ::dup2(terminal.slave >= 0 ? terminal.slave : out_fd_, STDOUT_FILENO);
    ::dup2(terminal.slave >= 0 ? terminal.slave : err_fd_, STDERR_FILENO);
    if (options_.file_size_limit > 0) {
      const auto limit = static_cast<rlim_t>(options_.file_size_limit);
      const rlimit both{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &both);
    }
    if (!options_.folder.empty() && ::chdir(options_.folder.c_str()) != 0) ::_exit(127);
    ::execve(program.c_str(), argv.data(), envp.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);  // here too: whoever comes first
  ::close(in_fd);
  if (terminal.slave >= 0) ::close(terminal.slave);
}

Running::~Running() {
  if (!exit_code_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_fd_, err_fd_, terminal_fd_})
    if (fd >= 0) ::close(fd);
}

std::vector<pid_t> Running::children() const {
  const std::string id = std::to_string(pid_);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> out;
  for (pid_t child = 0; file >> child;) out.push_back(child);
  return out;
}

void Running::send(int signal) const { ::kill(pid_, signal); }

std::string Running::out() const { return terminal_fd_ >= 0 ? terminal_text_ : read_shared(out_fd_); }
std::string Running::err() const { return terminal_fd_ >= 0 ? "" : read_shared(err_fd_); }

void Running::read_terminal() {
  if (terminal_fd_ < 0) return;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(terminal_fd_, buffer, sizeof buffer)) > 0;)
    terminal_text_.append(buffer, static_cast<size_t>(got));
}

bool Running::has_ended() {
  if (exit_code_) return true;
  int status = 0;
  rusage used{};
  if (::wait4(pid_, &status, WNOHANG, &used) != pid_) return false;
  note_end(status, used);
  return true;
}

void Running::note_end(int status, const rusage& used) {
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  peak_bytes_ = int64_t{used.ru_maxrss} << 10;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  cpu_seconds_ = seconds(used.ru_utime) + seconds(used.ru_stime);
}

bool Running::wait_for_text(const std::string& words) {
  while (std::chrono::steady_clock::now() - start_ < options_.timeout) {
    const bool is_last_look = has_ended();
    read_terminal();
    if (out().find(words) != std::string::npos || err().find(words) != std::string::npos) return true;
    if (is_last_look) return false;
    std::this_thread::sleep_for(poll_interval);
  }
  return false;
}

Outcome Running::wait() {
  while (!has_ended()) {
    read_terminal();
    if (std::chrono::steady_clock::now() - start_ > options_.timeout) {
      ADD_FAILURE() << "not done after " << options_.timeout.count() << " ms\n" << out() << err();
      ::kill(-pid_, SIGKILL);
      int status = 0;
      rusage used{};
      if (::wait4(pid_, &status, 0, &used) == pid_) note_end(status, used);
    }
    std::this_thread::sleep_for(poll_interval);
  }
  read_terminal();
  return {*exit_code_, out(), err(), cpu_seconds_, peak_bytes_};
}

Outcome run_duoka(const std::vector<std::string>& arguments, RunOptions options) {
  return Running(arguments, std::move(options)).wait();
}

}  // namespace duoka::testing
