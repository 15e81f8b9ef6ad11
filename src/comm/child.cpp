// SPDX-License-Identifier: Apache-2.0
#include "comm/child.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

/// Exit code of a child whose program could not be run.
constexpr int cannot_run = 127;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

void keep_open(int fd) {
  if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
}

/// All that is needed between fork and exec, made before: only async-signal-safe calls are allowed there,
/// for libtorch may have threads that hold malloc's locks.
struct Plan {
  const std::function<int()>& body;
  const char* program;
  char* const* argv;
  char* const* envp;
  const cpu_set_t* cores;
  const sigset_t* signal_mask;
  int null_fd;
  int report_fd;
  int inherited_fd;
  int closed_fd;
  bool has_stdout;
  pid_t launcher;
};

/// Nothing of the launcher's may be unwound or destroyed in its copy, so it leaves from here.
[[noreturn]] void run_body(const Plan& plan) noexcept {
  ::environ = const_cast<char**>(plan.envp);
  const int exit_code = plan.body();
  std::fflush(nullptr);
  ::_exit(exit_code);
}

[[noreturn]] void become(const Plan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.launcher) ::_exit(cannot_run);  // it died before the line above
  ::dup2(plan.null_fd, STDIN_FILENO);
  if (!plan.has_stdout) ::dup2(plan.null_fd, STDOUT_FILENO);
  if (plan.cores != nullptr) ::sched_setaffinity(0, sizeof *plan.cores, plan.cores);
  keep_open(plan.report_fd);
  keep_open(plan.inherited_fd);
  if (plan.closed_fd >= 0) ::close(plan.closed_fd);
  ::sigprocmask(SIG_SETMASK, plan.signal_mask, nullptr);
  if (plan.body) run_body(plan);
  ::execve(plan.program, plan.argv, plan.envp);
  ::_exit(cannot_run);
}

/// /dev/null under a number that is none of the three standard ones, which may be closed here.
int open_null() {
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int high = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (fd >= 0) ::close(fd);
  if (high < 0) throw SystemError(text("cannot open /dev/null: ", std::strerror(errno)));
  return high;
}

/// A pipe, both ends above the standard numbers.
std::pair<int, int> open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError(text("cannot make a pipe: ", std::strerror(errno)));
  for (int& end : ends) {
    const int high = ::fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    ::close(end);
    end = high;
  }
  return {ends[0], ends[1]};
}

int64_t now_nanoseconds() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Child::Child(int rank, ChildSetup setup) : rank_(rank) {
  const auto [read_end, write_end] = open_pipe();
  report_fd_ = read_end;
  const int null_fd = open_null();
  setup.environment.push_back(text("DUOKA_REPORT_FD=", write_end));
  setup.arguments.insert(setup.arguments.begin(), setup.program);
  const auto argv = pointers(setup.arguments);
  const auto envp = pointers(setup.environment);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : setup.cores) CPU_SET(core, &cores);
  const Plan plan{.body = setup.body,
                  .program = setup.program.c_str(),
                  .argv = argv.data(),
                  .envp = envp.data(),
                  .cores = setup.cores.empty() ? nullptr : &cores,
                  .signal_mask = &setup.signal_mask,
                  .null_fd = null_fd,
                  .report_fd = write_end,
                  .inherited_fd = setup.inherited_fd,
                  .closed_fd = setup.closed_fd,
                  .has_stdout = setup.has_stdout,
                  .launcher = ::getpid()};
  pid_ = ::fork();
  if (pid_ == 0) become(plan);
  const int error = errno;
  ::close(write_end);
  ::close(null_fd);
  if (pid_ < 0) {
    ::close(report_fd_);
    throw SystemError(text("cannot start rank ", rank, ": ", std::strerror(error)));
  }
}

Child::~Child() {
  if (pid_ > 0 && is_running()) {
    send(SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (report_fd_ >= 0) ::close(report_fd_);
}

Child::Child(Child&& other) noexcept
    : rank_(other.rank_),
      pid_(std::exchange(other.pid_, -1)),
      report_fd_(std::exchange(other.report_fd_, -1)),
      status_(other.status_),
      report_(std::move(other.report_)),
      ended_nanoseconds_(other.ended_nanoseconds_) {}

bool Child::has_just_ended() {
  if (!is_running()) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  status_ = status;
  ended_nanoseconds_ = now_nanoseconds();
  read_report();
  return true;
}

void Child::send(int signal) const {
  if (is_running()) ::kill(pid_, signal);
}

int Child::exit_code() const {
  return WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_);
}

int Child::fatal_signal() const { return WIFSIGNALED(*status_) ? WTERMSIG(*status_) : 0; }

int64_t Child::failure_nanoseconds() const { return report_ ? report_->nanoseconds : ended_nanoseconds_; }

void Child::read_report() {
  // A grandchild may hold the other end open: take what is there.
  ::fcntl(report_fd_, F_SETFL, O_NONBLOCK);
  std::string bytes;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(report_fd_, buffer, sizeof buffer)) > 0;)
    bytes.append(buffer, static_cast<size_t>(n));
  report_ = from_wire(bytes);
}

}  // namespace duoka::comm
