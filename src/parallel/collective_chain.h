// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "duoka/comm/collectives.h"

namespace duoka::parallel {

/// Collectives one after another with work between them, started without waiting. A link does the work that
/// can be done when the collective before it has ended, and starts the next one; a last link that starts none
/// returns Pending().
using CollectiveChain = std::deque<std::function<comm::Pending()>>;

/// Chains under way, in the order in which they were begun. Which link is run when follows from the calls
/// alone, so that every rank that makes the same calls starts the same collectives in the same order.
class ChainQueue final {
 public:
  /// Runs the first link. Before that it ends the oldest chains, until fewer than `most` are under way: what
  /// they hold is bounded so.
  void begin(CollectiveChain chain, size_t most) {
    while (!queue_.empty() && queue_.size() >= most) finish_oldest();
    queue_.push_back({std::move(chain), {}});
    advance(queue_.back());
  }
  /// Ends all, oldest first: link by link of all of them, so that their collectives overlap.
  void finish() {
    for (bool is_done = false; !is_done;) {
      is_done = true;
      for (Entry& entry : queue_) {
        if (entry.links.empty()) continue;
        advance(entry);
        is_done = false;
      }
    }
    for (Entry& entry : queue_) entry.pending.wait();
    queue_.clear();
  }
  bool is_empty() const { return queue_.empty(); }

 private:
  struct Entry {
    CollectiveChain links;
    comm::Pending pending;
  };
  static void advance(Entry& entry) {
    entry.pending.wait();
    const auto link = std::move(entry.links.front());
    entry.links.pop_front();
    entry.pending = link();
  }
  void finish_oldest() {
    Entry& oldest = queue_.front();
    while (!oldest.links.empty()) advance(oldest);
    oldest.pending.wait();
    queue_.pop_front();
  }

  std::deque<Entry> queue_;
};

}  // namespace duoka::parallel
