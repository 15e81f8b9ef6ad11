// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer/merge_table.h"

namespace duoka::data {

/// A token while a piece is merged.
struct Symbol {
  int32_t id = 0;
  uint32_t begin = 0;  ///< Byte of the piece.
};

/// Merges neighbours of a piece, always the pair of lowest rank, leftmost first, until none is left.
/// Keeps its working memory for the next piece; for one thread.
class Merger {
 public:
  /// O(n^2) below a few dozen symbols, where it is the fastest, else O(n log n) and 32 bytes a symbol.
  void run(const MergeTable& merges, std::vector<Symbol>& symbols);
  /// Gives back what an unusually long piece took.
  void shrink();

 private:
  struct Candidate {
    uint32_t rank;
    uint32_t left;  ///< Index of the pair's first symbol.
  };
  struct Links {
    uint32_t previous;
    uint32_t next;
  };
  void run_short(const MergeTable& merges, std::vector<Symbol>& symbols);
  void run_long(const MergeTable& merges, std::vector<Symbol>& symbols);
  void merge_at(uint32_t left, int32_t result, const MergeTable& merges, std::vector<Symbol>& symbols);
  void offer(uint32_t left, const MergeTable& merges, const std::vector<Symbol>& symbols);

  std::vector<MergeTable::Merge> pairs_;
  std::vector<Candidate> heap_;
  std::vector<Links> links_;
};

}  // namespace duoka::data
