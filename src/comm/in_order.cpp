// SPDX-License-Identifier: Apache-2.0
#include "comm/in_order.h"

#include <utility>

namespace duoka::comm {

InOrder::~InOrder() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::future<void> InOrder::run(std::function<void()> body) {
  Entry entry{std::move(body), {}};
  std::future<void> done = entry.done.get_future();
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_one();
  return done;
}

bool InOrder::is_busy() const {
  const std::lock_guard lock(mutex_);
  return is_running_ || !entries_.empty();
}

void InOrder::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_closed_ || !entries_.empty(); });
    if (entries_.empty()) return;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    is_running_ = true;
    lock.unlock();
    run_unless_failed(std::exchange(entry.body, nullptr));
    lock.lock();
    // Before anyone can know that this was the last: who has waited for it finds nothing busy.
    is_running_ = false;
    if (error_)
      entry.done.set_exception(error_);
    else
      entry.done.set_value();
  }
}

void InOrder::run_unless_failed(std::function<void()> body) {
  try {
    if (!error_) body();
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace duoka::comm
