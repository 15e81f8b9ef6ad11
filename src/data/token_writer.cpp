// SPDX-License-Identifier: Apache-2.0
#include "data/token_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

namespace {

constexpr size_t buffer_bytes = size_t{1} << 20;
constexpr uint64_t max_warnings_kept = 1000;
constexpr size_t max_remark_bytes = 1000;

[[noreturn]] void fail(const std::filesystem::path& folder, const char* what) {
  throw SystemError(
      text("cannot ", what, " a temporary file in ", folder.string(), ": ", std::strerror(errno)));
}

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

SpillFile::SpillFile(const std::filesystem::path& folder)
    : folder_(folder), file_(detail::open_nameless(folder)) {
  if (file_.get() < 0) fail(folder_, "create");
}

void SpillFile::append(const void* data, size_t num_bytes) {
  const auto* bytes = static_cast<const std::byte*>(data);
  buffer_.insert(buffer_.end(), bytes, bytes + num_bytes);
  size_ += num_bytes;
  if (buffer_.size() >= buffer_bytes) flush();
}

void SpillFile::flush() {
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t n = ::write(file_.get(), buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno != EINTR) fail(folder_, "write");
    if (n > 0) done += static_cast<size_t>(n);
  }
  buffer_.clear();
}

std::span<const std::byte> SpillFile::read_piece(uint64_t at) {
  buffer_.resize(buffer_bytes);
  ssize_t n = 0;
  do n = ::pread(file_.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(at));
  while (n < 0 && errno == EINTR);
  if (n <= 0) fail(folder_, "read");
  return std::span(buffer_).first(static_cast<size_t>(n));
}

TokenWriter::TokenWriter(const std::filesystem::path& path, const std::array<uint64_t, 2>& key)
    : file_(path), index_(path.parent_path()), remarks_(path.parent_path()) {
  footer_.magic = token_file_magic;
  footer_.key = key;
}

TokenWriter::~TokenWriter() = default;

void TokenWriter::write(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= buffer_bytes) flush();
}

void TokenWriter::flush() {
  hash_.add(buffer_.data(), buffer_.size());
  file_.write(buffer_);
  buffer_.clear();
}

void TokenWriter::add(int64_t source_row, const RowOutcome& outcome) {
  constexpr int64_t most = std::numeric_limits<uint32_t>::max();
  if (source_row > most || outcome.full_tokens > most)
    throw DataError(
        text("row ", source_row, " of ", outcome.full_tokens, " tokens; the cache holds 2^32 of each"));
  ++footer_.num_read;
  footer_.longest = std::max(footer_.longest, static_cast<uint64_t>(outcome.full_tokens));
  if (outcome.rows.empty()) {
    add_remark(outcome.line, RemarkKind::refusal, outcome.refusal);
    return;
  }
  ++footer_.num_used;
  footer_.num_cut += outcome.was_cut ? 1 : 0;
  for (const EncodedRow& row : outcome.rows)
    add_row(row, {footer_.num_tokens, 0, 0, static_cast<uint32_t>(outcome.full_tokens),
                  static_cast<uint32_t>(source_row)});
  if (outcome.warnings.empty()) return;
  if (footer_.num_warned++ < max_warnings_kept)
    add_remark(outcome.line, RemarkKind::warning, join(outcome.warnings, "; "));
}

void TokenWriter::add_row(const EncodedRow& row, IndexEntry entry) {
  if (row.ids.empty() || row.ids.size() != row.labels.size())
    throw StateError(
        text("token cache: a row of ", row.ids.size(), " ids and ", row.labels.size(), " labels"));
  for (size_t i = 0; i < row.ids.size(); ++i) {
    const bool is_trained = i > 0 && row.labels[i] >= 0;
    const TokenWord word = static_cast<TokenWord>(row.ids[i]) | (is_trained ? trained_bit : 0);
    entry.num_trained += is_trained ? 1 : 0;
    write(bytes_of(word));
  }
  entry.num_tokens = static_cast<uint32_t>(row.ids.size());
  footer_.num_tokens += entry.num_tokens;
  ++footer_.num_rows;
  index_.append(&entry, sizeof(entry));
}

void TokenWriter::add_remark(int64_t line, RemarkKind kind, std::string_view words) {
  words = words.substr(0, max_remark_bytes);
  const RemarkHead head{static_cast<uint64_t>(line), static_cast<uint32_t>(words.size()), kind};
  remarks_.append(&head, sizeof(head));
  remarks_.append(words.data(), words.size());
}

void TokenWriter::commit() {
  if (footer_.num_tokens % 2 == 1) write(bytes_of(TokenWord{0}));
  index_.read_back([this](std::span<const std::byte> piece) { write(piece); });
  remarks_.read_back([this](std::span<const std::byte> piece) { write(piece); });
  flush();
  footer_.num_remark_bytes = remarks_.size();
  footer_.content_hash = hash_.value();
  footer_.footer_hash = hash_of(footer_);
  file_.write(bytes_of(footer_));
  file_.commit();
}

}  // namespace duoka::data
