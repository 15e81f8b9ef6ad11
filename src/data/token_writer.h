// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/content_hash.h"
#include "core/descriptor.h"
#include "data/token_file.h"
#include "duoka/core/files.h"
#include "duoka/data/token_cache.h"

namespace duoka::data {

/// Bytes that are put aside on disk until their place in the file is known. The file has no name, so it
/// goes with the process, however that ends.
class SpillFile {
 public:
  explicit SpillFile(const std::filesystem::path& folder);

  void append(const void* data, size_t num_bytes);
  uint64_t size() const { return size_; }
  /// Calls `sink` with all the bytes, in order, in pieces.
  template <class Sink>
  void read_back(Sink&& sink) {
    flush();
    for (uint64_t at = 0; at < size_;) {
      const std::span<const std::byte> piece = read_piece(at);
      sink(piece);
      at += piece.size();
    }
  }

 private:
  void flush();
  std::span<const std::byte> read_piece(uint64_t at);

  std::filesystem::path folder_;
  detail::Descriptor file_;
  uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

/// Writes a cache file front to back. Memory held does not depend on the number of rows.
class TokenWriter {
 public:
  TokenWriter(const std::filesystem::path& path, const std::array<uint64_t, 2>& key);
  ~TokenWriter();

  /// What became of row `source_row` of the data file; rows come in ascending order.
  void add(int64_t source_row, const RowOutcome& outcome);
  const Footer& footer() const { return footer_; }
  /// Makes the file appear under its name.
  void commit();

 private:
  void add_row(const EncodedRow& row, IndexEntry entry);
  void add_remark(int64_t line, RemarkKind kind, std::string_view words);
  void write(std::span<const std::byte> bytes);
  void flush();

  AtomicFile file_;
  SpillFile index_;
  SpillFile remarks_;
  Footer footer_;
  std::vector<std::byte> buffer_;
  ContentHash hash_;
};

}  // namespace duoka::data
