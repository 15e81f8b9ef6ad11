// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace duoka::data {

/// Tokens by id and by text. Ids may leave holes (an empty text); two ids never share a text.
class Vocabulary {
 public:
  /// Throws FormatError for an id that is negative or far beyond `num_entries` (the entries the file lists),
  /// one used for two texts, or a text with two ids.
  void add(std::string token, int64_t id, size_t num_entries, const std::string& origin);
  void reserve(size_t num_entries) { ids_.reserve(num_entries); }

  std::optional<int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// "" for a hole and for an id that is out of range.
  std::string_view text(int32_t id) const {
    return id >= 0 && id < size() ? std::string_view(texts_[static_cast<size_t>(id)]) : std::string_view();
  }
  bool has(int32_t id) const { return id >= 0 && id < size() && is_used_[static_cast<size_t>(id)]; }
  /// One past the largest id.
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> texts_;
  std::vector<bool> is_used_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace duoka::data
