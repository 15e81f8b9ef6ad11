// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/pre_tokenizer.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

/// Joins each match to the part before it, unless that is a match too.
void merge_with_previous(const std::vector<Part>& parts, std::vector<TextPiece>& out) {
  bool was_match = false;
  bool is_first = true;
  for (const Part& part : parts) {
    if (part.is_match && !was_match && !is_first) {
      out.back().end = part.piece.end;
    } else {
      out.push_back(part.piece);
    }
    was_match = part.is_match;
    is_first = false;
  }
}

/// The mirror image: from the right, each match joins the part behind it, unless that is a match too.
void merge_with_next(const std::vector<Part>& parts, std::vector<TextPiece>& out) {
  for (size_t i = 0; i < parts.size(); ++i) {
    TextPiece piece = parts[i].piece;
    if (parts[i].is_match && i + 1 < parts.size() && !parts[i + 1].is_match) piece.end = parts[++i].piece.end;
    out.push_back(piece);
  }
}

void merge_equal(const std::vector<Part>& parts, std::vector<TextPiece>& out) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && parts[i].is_match == parts[i - 1].is_match) {
      out.back().end = parts[i].piece.end;
    } else {
      out.push_back(parts[i].piece);
    }
  }
}

}  // namespace

void append_split(const std::vector<Part>& parts, SplitBehavior behavior, std::vector<TextPiece>& out) {
  switch (behavior) {
    case SplitBehavior::merged_with_previous:
      return merge_with_previous(parts, out);
    case SplitBehavior::merged_with_next:
      return merge_with_next(parts, out);
    case SplitBehavior::contiguous:
      return merge_equal(parts, out);
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      break;
  }
  for (const Part& part : parts) {
    if (behavior == SplitBehavior::isolated || !part.is_match) out.push_back(part.piece);
  }
}

SplitBehavior split_behavior(std::string_view name, const std::string& origin) {
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw FormatError(
      text(origin, ": split behavior ", name,
           " is unknown; wanted Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous"));
}

}  // namespace duoka::data
