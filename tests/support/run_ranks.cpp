// SPDX-License-Identifier: Apache-2.0
#include "support/run_ranks.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>

#include "duoka/comm/local.h"

namespace duoka::test {

namespace {

/// Counts ranks that are done and keeps the error that came first.
class Finish {
 public:
  explicit Finish(int num_ranks) : num_ranks_(num_ranks) {}

  void done(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error && !first_error_) first_error_ = std::move(error);
    ++num_done_;
    changed_.notify_all();
  }
  bool wait_for(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return num_done_ == num_ranks_; });
  }
  std::exception_ptr first_error() {
    const std::lock_guard lock(mutex_);
    return first_error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_ranks_;
  int num_done_ = 0;
  std::exception_ptr first_error_;
};

/// The error is noted before the group closes: closing fails the peers, whose errors must come second.
void run_one(comm::LocalMeeting& meeting, int rank, const std::function<void(const comm::Group&)>& body,
             std::chrono::milliseconds timeout, Finish& finish) {
  std::exception_ptr error;
  try {
    at::set_num_threads(1);
    const comm::Group group = meeting.join(rank, {.timeout = timeout});
    try {
      body(group);
    } catch (...) {
      finish.done(std::current_exception());
      return;
    }
  } catch (...) {
    error = std::current_exception();
  }
  finish.done(error);
}

}  // namespace

void run_ranks(int num_ranks, const std::function<void(const comm::Group&)>& body,
               std::chrono::milliseconds timeout) {
  const int num_threads = at::get_num_threads();
  comm::LocalMeeting meeting(num_ranks);
  Finish finish(num_ranks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks.emplace_back([&, rank] { run_one(meeting, rank, body, timeout, finish); });
  // Collectives end within the time-out by themselves; only a body that is stuck elsewhere outlives it.
  if (!finish.wait_for(timeout + std::chrono::seconds(60))) {
    std::fprintf(stderr, "run_ranks: not all of %d ranks were done after %lld ms\n", num_ranks,
                 static_cast<long long>(timeout.count()));
    std::_Exit(EXIT_FAILURE);
  }
  for (std::thread& rank : ranks) rank.join();
  at::set_num_threads(num_threads);
  if (const auto error = finish.first_error()) std::rethrow_exception(error);
}

}  // namespace duoka::test
