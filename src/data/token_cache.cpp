// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/token_cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "core/content_hash.h"
#include "data/file_lock.h"
#include "data/ordered_parallel.h"
#include "data/token_file.h"
#include "data/token_writer.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"

namespace duoka::data {

namespace {

namespace fs = std::filesystem;

/// Rows a thread encodes at a time: enough to make the hand-over cheap, few enough to share work evenly.
constexpr int64_t rows_a_block = 64;

/// What writers that were killed left of this cache file. Call with its lock held.
void remove_leftovers(const fs::path& path) {
  std::error_code ignored;
  const std::string start = "." + path.filename().string() + ".";
  for (const auto& entry : fs::directory_iterator(path.parent_path(), ignored))
    if (entry.path().filename().string().starts_with(start)) fs::remove(entry.path(), ignored);
}

[[noreturn]] void refuse(const std::string& data_path, int64_t line, std::string_view reason) {
  throw DataError(text(data_path, ":", line, ": ", reason));
}

/// Encodes all rows in parallel and writes them in order.
void build(const CacheSource& source, const fs::path& path, const Log& log) {
  using Block = std::vector<RowOutcome>;
  const int64_t num_blocks = (source.num_rows + rows_a_block - 1) / rows_a_block;
  TokenWriter writer(path, source.key);
  Progress progress(log, "tokenising " + fs::path(source.data_path).filename().string(), source.num_rows,
                    "row");
  std::string first_refusal;
  OrderedParallel<Block> blocks(num_blocks, std::max(1, source.num_threads), [&source] {
    return [encode = source.make_encode(), &source](int64_t block) {
      const int64_t first = block * rows_a_block;
      Block outcomes;
      for (int64_t row = first; row < std::min(first + rows_a_block, source.num_rows); ++row)
        outcomes.push_back(encode(row));
      return outcomes;
    };
  });
  blocks.run([&](int64_t block, const Block& outcomes) {
    int64_t row = block * rows_a_block;
    for (const RowOutcome& outcome : outcomes) {
      if (outcome.rows.empty()) {
        if (source.is_strict) refuse(source.data_path, outcome.line, outcome.refusal);
        if (first_refusal.empty()) first_refusal = text("line ", outcome.line, ": ", outcome.refusal);
      }
      writer.add(row++, outcome);
    }
    progress.advance(static_cast<int64_t>(outcomes.size()));
  });
  if (writer.footer().num_used == 0)
    throw DataError(
        text(source.data_path, ": 0 of ", counted(source.num_rows, "row"), " usable; ", first_refusal));
  writer.commit();
}

/// Tells one making of a file from the next; nothing when there is no file.
std::optional<uint64_t> identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

std::vector<TokenCache::Remark> remarks_in(std::string_view bytes, RemarkKind kind, int64_t limit) {
  std::vector<TokenCache::Remark> found;
  while (bytes.size() >= sizeof(RemarkHead) && static_cast<int64_t>(found.size()) < limit) {
    RemarkHead head;
    std::memcpy(&head, bytes.data(), sizeof(head));
    bytes.remove_prefix(sizeof(head));
    const std::string_view words = bytes.substr(0, head.num_bytes);
    bytes.remove_prefix(words.size());
    if (head.kind == kind) found.push_back({static_cast<int64_t>(head.line), words});
  }
  return found;
}

}  // namespace

std::array<uint64_t, 2> content_key(std::span<const std::string_view> parts) {
  ContentHash hash;
  for (const std::string_view part : parts) {
    const uint64_t size = part.size();
    hash.add(&size, sizeof(size));
    hash.add(part.data(), part.size());
  }
  return hash.value();
}

std::string default_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string own = variable("DUOKA_CACHE"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/duoka";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/duoka";
  return (fs::temp_directory_path() / text("duoka-", ::getuid())).string();
}

struct TokenCache::Content {
  MappedFile file;
  TokenFile parts;

  const IndexEntry& entry(int64_t row) const { return parts.index[static_cast<size_t>(row)]; }
};

TokenCache::TokenCache(std::string path, std::shared_ptr<const Content> content, bool was_built)
    : path_(std::move(path)), content_(std::move(content)), was_built_(was_built) {}

std::shared_ptr<const TokenCache::Content> TokenCache::map(const std::string& path, const CacheSource& source,
                                                           const Log& log) {
  if (!fs::exists(path)) return nullptr;
  MappedFile file = MappedFile::open(path);
  if (const std::string fault = check_token_file(file.bytes(), source.key); !fault.empty()) {
    log.warning(text("token cache ", path, " is damaged (", fault, "); it is made again"));
    return nullptr;
  }
  const TokenFile parts = parts_of(file.bytes());
  return std::make_shared<const Content>(Content{std::move(file), parts});
}

TokenCache TokenCache::open(const CacheSource& source, const Log& log) {
  const fs::path folder = source.folder.empty() ? default_cache_folder() : source.folder;
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    throw SystemError(text("cannot create the token cache's folder ", folder.string(), ": ", code.message(),
                           "; set cache_dir to a folder that can be written"));
  const fs::path path = folder / (hex(source.key) + ".tokens");

  const auto before = identity_of(path);
  std::shared_ptr<const Content> content = source.is_overwriting ? nullptr : map(path, source, log);
  bool was_built = false;
  if (content == nullptr) {
    const FileLock lock(folder / (hex(source.key) + ".lock"),
                        [&] { log.info("waiting for another process that tokenises " + source.data_path); });
    // Whoever had the lock before may have made the file; a file that is the same as before is the damaged
    // one, or the one to be overwritten.
    if (identity_of(path) != before) content = map(path, source, log);
    if (content == nullptr) {
      remove_leftovers(path);
      build(source, path, log);
      was_built = true;
      content = map(path, source, log);
    }
  }
  if (content == nullptr)
    throw SystemError(text("token cache ", path.string(), " could not be read back as written"));
  TokenCache cache(path.string(), std::move(content), was_built);
  if (source.is_strict) cache.require_no_refusal(source.data_path);
  return cache;
}

std::optional<TokenCache> TokenCache::reopen(const std::string& path) {
  MappedFile file = MappedFile::open(path);
  if (file.bytes().size() < sizeof(Footer)) return std::nullopt;
  const std::array<uint64_t, 2> key = footer_of(file.bytes()).key;
  if (fs::path(path).stem() != hex(key) || !check_footer(file.bytes(), key).empty()) return std::nullopt;
  const TokenFile parts = parts_of(file.bytes());
  return TokenCache(path, std::make_shared<const Content>(Content{std::move(file), parts}), false);
}

void TokenCache::require_no_refusal(const std::string& data_path) const {
  for (const Remark& refusal : refusals(1)) refuse(data_path, refusal.line, refusal.text);
}

int64_t TokenCache::num_rows() const { return static_cast<int64_t>(content_->parts.index.size()); }
int64_t TokenCache::num_tokens() const { return static_cast<int64_t>(content_->parts.tokens.size()); }
int64_t TokenCache::num_tokens(int64_t row) const { return content_->entry(row).num_tokens; }
int64_t TokenCache::num_trained(int64_t row) const { return content_->entry(row).num_trained; }
int64_t TokenCache::source_row(int64_t row) const { return content_->entry(row).source_row; }
int64_t TokenCache::full_tokens(int64_t row) const { return content_->entry(row).full_tokens; }

void TokenCache::read(int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels) const {
  constexpr int32_t not_trained = -100;
  const IndexEntry& entry = content_->entry(row);
  // Held against the file's size here, for reopen() has not looked at the index.
  if (const uint64_t all = content_->parts.tokens.size();
      entry.num_tokens > all || entry.first_token > all - entry.num_tokens)
    throw FormatError(text("token cache ", path_, ": row ", row, " lies outside of it; delete the file"));
  for (const TokenWord word : content_->parts.tokens.subspan(entry.first_token, entry.num_tokens)) {
    const auto id = static_cast<int32_t>(word & ~trained_bit);
    ids.push_back(id);
    labels.push_back((word & trained_bit) != 0 ? id : not_trained);
  }
}

TokenCache::Counts TokenCache::counts() const {
  const Footer& footer = content_->parts.footer;
  const auto count = [](uint64_t value) { return static_cast<int64_t>(value); };
  return {count(footer.num_read), count(footer.num_used),   count(footer.num_read - footer.num_used),
          count(footer.num_cut),  count(footer.num_warned), count(footer.longest)};
}

std::vector<TokenCache::Remark> TokenCache::refusals(int64_t limit) const {
  return remarks_in(content_->parts.remarks, RemarkKind::refusal, limit);
}

std::vector<TokenCache::Remark> TokenCache::warnings(int64_t limit) const {
  return remarks_in(content_->parts.remarks, RemarkKind::warning, limit);
}

}  // namespace duoka::data
