// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace duoka::data {

/// A token that is found in the text before the model sees it.
struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool is_special = false;      ///< A control token.
  bool is_normalized = false;   ///< Looked for in the normalised text; else in the text as given.
  bool is_single_word = false;  ///< Not beside a word character.
  bool strips_left = false;     ///< Takes the white space in front with it.
  bool strips_right = false;
};

/// Finds the leftmost, then longest of a set of tokens in a text.
class TokenFinder {
 public:
  /// One match, with the white space it takes; `content`: without it.
  struct Found {
    const AddedToken* token;
    size_t begin;
    size_t end;
  };
  /// Whether a control token may stand at bytes [begin, end).
  using MayStand = std::function<bool(size_t begin, size_t end)>;

  /// `pattern`: the text looked for. `token` has to outlive the finder.
  void add(std::string_view pattern, const AddedToken& token);
  bool is_empty() const { return nodes_.size() == 1; }

  /// Matches from left to right.
  std::vector<Found> find_all(std::string_view text, const MayStand& may_stand) const;

 private:
  struct Node {
    const AddedToken* token = nullptr;
    std::vector<std::pair<uint8_t, uint32_t>> children;
  };
  const Node* child(const Node& node, uint8_t byte) const;
  std::optional<Found> find_at(std::string_view text, size_t begin, const MayStand& may_stand) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> is_first_byte_{};
};

}  // namespace duoka::data
