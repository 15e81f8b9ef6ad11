// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace duoka::data {

/// Runs work(0), work(1), … work(count-1) in `num_threads` threads and consume(i, result) for each in that
/// order, in the calling thread. At most 4 results a thread wait, so memory does not grow with `count`.
/// `make_work()` is called once in each thread and gives its work function.
/// An exception from work(i) is thrown here in its turn, after consume(i-1): which error is seen does not
/// depend on timing. All threads have ended when this returns or throws.
template <class Result>
class OrderedParallel {
 public:
  using Work = std::function<Result(int64_t)>;
  OrderedParallel(int64_t count, int num_threads, std::function<Work()> make_work)
      : count_(count), make_work_(std::move(make_work)), slots_(static_cast<size_t>(4 * num_threads)) {
    for (int i = 0; i < num_threads; ++i) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        // The system gives no more threads: those there are do the work. They could not be left waiting
        // either, for nothing would ever wake them.
        if (threads_.empty()) throw;
        break;
      }
    }
  }
  ~OrderedParallel() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    has_room_.notify_all();
  }
  OrderedParallel(const OrderedParallel&) = delete;
  OrderedParallel& operator=(const OrderedParallel&) = delete;

  template <class Consume>
  void run(Consume&& consume) {
    for (int64_t i = 0; i < count_; ++i) consume(i, take(i));
  }

 private:
  struct Slot {
    std::optional<Result> result;
    std::exception_ptr error;
    bool is_full() const { return result || error; }
  };
  Slot& slot(int64_t i) { return slots_[static_cast<size_t>(i) % slots_.size()]; }

  Result take(int64_t i) {
    std::unique_lock lock(mutex_);
    has_result_.wait(lock, [&] { return slot(i).is_full(); });
    if (slot(i).error) std::rethrow_exception(slot(i).error);
    Result result = *std::move(slot(i).result);
    slot(i).result.reset();
    ++num_taken_;
    lock.unlock();
    has_room_.notify_all();
    return result;
  }

  void work() {
    Work run;
    std::exception_ptr failed;
    try {
      run = make_work_();
    } catch (...) {
      failed = std::current_exception();
    }
    while (true) {
      int64_t i = 0;
      {
        std::unique_lock lock(mutex_);
        has_room_.wait(lock, [&] {
          return is_stopping_ || next_ == count_ || next_ < num_taken_ + static_cast<int64_t>(slots_.size());
        });
        if (is_stopping_ || next_ == count_) return;
        i = next_++;
      }
      Slot made{std::nullopt, failed};
      if (!failed) try {
          made.result.emplace(run(i));
        } catch (...) {
          made.error = std::current_exception();
        }
      {
        const std::lock_guard lock(mutex_);
        slot(i) = std::move(made);
      }
      has_result_.notify_one();
    }
  }

  int64_t count_;
  std::function<Work()> make_work_;
  std::mutex mutex_;
  std::condition_variable has_result_;
  std::condition_variable has_room_;
  std::vector<Slot> slots_;
  int64_t next_ = 0;
  int64_t num_taken_ = 0;
  bool is_stopping_ = false;
  std::vector<std::jthread> threads_;  // Last: joined before the rest is destroyed.
};

}  // namespace duoka::data
