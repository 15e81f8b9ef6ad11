// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace duoka::data {

// The form of a token cache file; described in docs/token-cache.md. All numbers in the machine's own byte
// order, which the magic tells apart.

/// A token: the id in the low 31 bits, the top one set where it is trained.
using TokenWord = uint32_t;
inline constexpr TokenWord trained_bit = TokenWord{1} << 31;

struct IndexEntry {
  uint64_t first_token = 0;
  uint32_t num_tokens = 0;
  uint32_t num_trained = 0;
  uint32_t full_tokens = 0;
  uint32_t source_row = 0;
};
static_assert(sizeof(IndexEntry) == 24);

enum class RemarkKind : uint32_t { refusal = 0, warning = 1 };

/// Followed by `num_bytes` of text.
struct RemarkHead {
  uint64_t line = 0;
  uint32_t num_bytes = 0;
  RemarkKind kind = RemarkKind::refusal;
};
static_assert(sizeof(RemarkHead) == 16);

/// Ends the file, so that it can be written in one go.
struct Footer {
  uint64_t magic = 0;
  std::array<uint64_t, 2> key{};
  uint64_t num_tokens = 0;
  uint64_t num_rows = 0;
  uint64_t num_remark_bytes = 0;
  uint64_t num_read = 0;
  uint64_t num_used = 0;
  uint64_t num_cut = 0;
  uint64_t num_warned = 0;
  uint64_t longest = 0;
  std::array<uint64_t, 2> content_hash{};  ///< XXH3-128 of all before the footer.
  uint64_t footer_hash = 0;                ///< XXH3-64 of the footer before this field.
};
static_assert(sizeof(Footer) == 14 * sizeof(uint64_t));

inline constexpr uint64_t token_file_magic = 0x31304B544B4F5544;  // "DUOKTK01"

/// Requires as many bytes as a footer has.
Footer footer_of(std::span<const std::byte> bytes);
uint64_t hash_of(const Footer& footer);

/// The parts of a mapped cache file that has been checked.
struct TokenFile {
  std::span<const TokenWord> tokens;
  std::span<const IndexEntry> index;
  std::string_view remarks;
  Footer footer;
};

/// Finds the parts, without reading the content. Requires a file that check_token_file() passed.
TokenFile parts_of(std::span<const std::byte> bytes);

/// A key as file names have it.
std::string hex(const std::array<uint64_t, 2>& key);

/// check_token_file() without a look at anything but the footer.
std::string check_footer(std::span<const std::byte> bytes, const std::array<uint64_t, 2>& key);

/// "" when the file is whole and made for `key`; else what is wrong with it. Reads all of it once.
std::string check_token_file(std::span<const std::byte> bytes, const std::array<uint64_t, 2>& key);

}  // namespace duoka::data
