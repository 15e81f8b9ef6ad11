// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace duoka::comm {

/// Runs what it is given one after another, in that order, on a thread of its own, which starts with the
/// first. What comes after one that has thrown is not run: it fails with the same error.
class InOrder final {
 public:
  InOrder() = default;
  /// Waits for all that were given.
  ~InOrder();
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

  /// `body` is gone, with what it holds, before the future is ready.
  std::future<void> run(std::function<void()> body);
  /// Something waits or runs.
  bool is_busy() const;

 private:
  struct Entry {
    std::function<void()> body;
    std::promise<void> done;
  };
  void loop();
  void run_unless_failed(std::function<void()> body);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool is_running_ = false;
  bool is_closed_ = false;
  std::exception_ptr error_;  // of the thread only
  std::thread thread_;
};

}  // namespace duoka::comm
