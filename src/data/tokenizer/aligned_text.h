// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace duoka::data {

/// A text under way from what the user gave to what the model's vocabulary spells, which knows for each of
/// its bytes where in the original it came from. Costs nothing as long as no step changes the text.
class AlignedText {
 public:
  /// All of the original: byte i came from byte i.
  explicit AlignedText(std::string_view original) : view_(original) {}
  /// Bytes [begin, end) of another, which has to outlive this one unchanged.
  AlignedText(const AlignedText& parent, size_t begin, size_t end)
      : view_(parent.view_.substr(begin, end - begin)),
        origins_(parent.origins_ == nullptr ? nullptr : parent.origins_ + begin),
        offset_(parent.offset_ + static_cast<uint32_t>(begin)) {}
  AlignedText(const AlignedText&) = delete;
  AlignedText& operator=(const AlignedText&) = delete;

  std::string_view view() const { return view_; }
  /// Byte of the original that byte i came from, i < view().size(); for inserted text, what it precedes.
  uint32_t origin(size_t i) const {
    return origins_ == nullptr ? offset_ + static_cast<uint32_t>(i) : origins_[i];
  }

  /// Takes a changed text; one origin a byte.
  void replace(std::string text, std::vector<uint32_t> origins) {
    text_ = std::move(text);
    own_origins_ = std::move(origins);
    view_ = text_;
    origins_ = own_origins_.data();
  }

 private:
  std::string_view view_;
  const uint32_t* origins_ = nullptr;  ///< Null: byte i came from offset_ + i.
  uint32_t offset_ = 0;
  std::string text_;
  std::vector<uint32_t> own_origins_;
};

/// Builds the changed form of an AlignedText, piece by piece from the left.
class Rewrite {
 public:
  explicit Rewrite(AlignedText& text) : text_(text) {
    out_.reserve(text.view().size() + 16);
    origins_.reserve(text.view().size() + 16);
  }

  /// Bytes [begin, end) of the old text, unchanged.
  void keep(size_t begin, size_t end) {
    out_.append(text_.view().substr(begin, end - begin));
    for (size_t i = begin; i < end; ++i) origins_.push_back(text_.origin(i));
  }
  /// New bytes, said to come from byte `at` of the old text (its size: from the last byte).
  void put(std::string_view bytes, size_t at) {
    out_.append(bytes);
    const uint32_t origin = text_.view().empty() ? 0 : text_.origin(std::min(at, text_.view().size() - 1));
    origins_.insert(origins_.end(), bytes.size(), origin);
  }
  size_t size() const { return out_.size(); }
  /// Makes the result the text. Call once, last.
  void finish() { text_.replace(std::move(out_), std::move(origins_)); }

 private:
  AlignedText& text_;
  std::string out_;
  std::vector<uint32_t> origins_;
};

}  // namespace duoka::data
