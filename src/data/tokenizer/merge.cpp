// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/merge.h"

#include <algorithm>

namespace duoka::data {
namespace {

constexpr size_t longest_short = 48;
constexpr uint32_t none = UINT32_MAX;
constexpr int32_t gone = -1;
constexpr size_t usual_capacity = size_t{1} << 16;

template <class T>
void give_back(std::vector<T>& room) {
  if (room.capacity() > usual_capacity) std::vector<T>().swap(room);
}

}  // namespace

void Merger::run(const MergeTable& merges, std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= longest_short) {
    run_short(merges, symbols);
  } else {
    run_long(merges, symbols);
  }
}

void Merger::shrink() {
  give_back(heap_);
  give_back(links_);
}

void Merger::run_short(const MergeTable& merges, std::vector<Symbol>& symbols) {
  pairs_.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    pairs_.push_back(merges.find(symbols[i].id, symbols[i + 1].id));
  }
  while (!pairs_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < pairs_.size(); ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == MergeTable::no_rank) return;
    symbols[best].id = pairs_[best].result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    pairs_.erase(pairs_.begin() + static_cast<ptrdiff_t>(best));
    if (best < pairs_.size()) pairs_[best] = merges.find(symbols[best].id, symbols[best + 1].id);
    if (best > 0) pairs_[best - 1] = merges.find(symbols[best - 1].id, symbols[best].id);
  }
}

void Merger::offer(uint32_t left, const MergeTable& merges, const std::vector<Symbol>& symbols) {
  const uint32_t rank = merges.find(symbols[left].id, symbols[links_[left].next].id).rank;
  if (rank != MergeTable::no_rank) heap_.push_back({rank, left});
}

void Merger::run_long(const MergeTable& merges, std::vector<Symbol>& symbols) {
  const auto is_later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  const auto size = static_cast<uint32_t>(symbols.size());
  heap_.clear();
  links_.resize(size);
  for (uint32_t i = 0; i < size; ++i) links_[i] = {i == 0 ? none : i - 1, i + 1 == size ? none : i + 1};
  for (uint32_t i = 0; i + 1 < size; ++i) offer(i, merges, symbols);
  std::make_heap(heap_.begin(), heap_.end(), is_later);
  while (!heap_.empty()) {
    const Candidate candidate = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    heap_.pop_back();
    const uint32_t next = links_[candidate.left].next;
    if (symbols[candidate.left].id == gone || next == none) continue;
    // A candidate is out of date when either of its symbols has grown since: then the pair ranks otherwise.
    const MergeTable::Merge& merge = merges.find(symbols[candidate.left].id, symbols[next].id);
    if (merge.rank != candidate.rank) continue;
    const size_t old_size = heap_.size();
    merge_at(candidate.left, merge.result, merges, symbols);
    for (size_t i = old_size + 1; i <= heap_.size(); ++i) {
      std::push_heap(heap_.begin(), heap_.begin() + static_cast<ptrdiff_t>(i), is_later);
    }
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id == gone; });
}

void Merger::merge_at(uint32_t left, int32_t result, const MergeTable& merges, std::vector<Symbol>& symbols) {
  const uint32_t right = links_[left].next;
  symbols[left].id = result;
  symbols[right].id = gone;
  links_[left].next = links_[right].next;
  if (links_[left].next != none) {
    links_[links_[left].next].previous = left;
    offer(left, merges, symbols);
  }
  if (links_[left].previous != none) offer(links_[left].previous, merges, symbols);
}

}  // namespace duoka::data
