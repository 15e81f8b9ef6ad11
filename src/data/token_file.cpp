// SPDX-License-Identifier: Apache-2.0
#include "data/token_file.h"

#include <cstdio>
#include <cstring>

#include <xxhash.h>

#include "duoka/core/text.h"

namespace duoka::data {

namespace {

/// Tokens take 4 bytes; the index behind them begins on a multiple of 8.
uint64_t index_offset(const Footer& footer) { return (footer.num_tokens * sizeof(TokenWord) + 7) / 8 * 8; }

uint64_t size_by(const Footer& footer) {
  return index_offset(footer) + footer.num_rows * sizeof(IndexEntry) + footer.num_remark_bytes +
         sizeof(Footer);
}

bool is_index_sound(const TokenFile& file) {
  for (const IndexEntry& entry : file.index)
    if (entry.num_tokens == 0 || entry.num_tokens > file.tokens.size() ||
        entry.first_token > file.tokens.size() - entry.num_tokens)
      return false;
  return true;
}

}  // namespace

Footer footer_of(std::span<const std::byte> bytes) {
  Footer footer;
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof(Footer), sizeof(Footer));
  return footer;
}

uint64_t hash_of(const Footer& footer) { return XXH3_64bits(&footer, offsetof(Footer, footer_hash)); }

TokenFile parts_of(std::span<const std::byte> bytes) {
  const Footer footer = footer_of(bytes);
  const std::byte* const index = bytes.data() + index_offset(footer);
  const std::byte* const remarks = index + footer.num_rows * sizeof(IndexEntry);
  return {{reinterpret_cast<const TokenWord*>(bytes.data()), footer.num_tokens},
          {reinterpret_cast<const IndexEntry*>(index), footer.num_rows},
          {reinterpret_cast<const char*>(remarks), footer.num_remark_bytes},
          footer};
}

std::string hex(const std::array<uint64_t, 2>& key) {
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx", static_cast<unsigned long long>(key[1]),
                static_cast<unsigned long long>(key[0]));
  return digits.data();
}

std::string check_footer(std::span<const std::byte> bytes, const std::array<uint64_t, 2>& key) {
  if (bytes.size() < sizeof(Footer)) return text("it has ", bytes.size(), " bytes only");
  const Footer footer = footer_of(bytes);
  if (footer.magic != token_file_magic)
    return "it does not end in a footer; it was cut short or is another file";
  if (footer.footer_hash != hash_of(footer)) return "the footer's hash is wrong";
  if (footer.key != key) return "it was made from other data";
  // The footer is as it was written, so none of its sizes can be so large that the sum overflows.
  if (size_by(footer) != bytes.size())
    return text("it has ", bytes.size(), " bytes, wanted ", size_by(footer));
  return "";
}

std::string check_token_file(std::span<const std::byte> bytes, const std::array<uint64_t, 2>& key) {
  if (std::string fault = check_footer(bytes, key); !fault.empty()) return fault;
  const Footer footer = footer_of(bytes);
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size() - sizeof(Footer));
  if (footer.content_hash != std::array<uint64_t, 2>{hash.low64, hash.high64})
    return "the hash of its content is wrong";
  if (!is_index_sound(parts_of(bytes))) return "its index points outside of the tokens";
  return "";
}

}  // namespace duoka::data
