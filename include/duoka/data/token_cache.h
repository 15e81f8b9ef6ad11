// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/core/log.h"
#include "duoka/data/render.h"

namespace duoka::data {

/// What became of one row of a file: rows to train on, or a reason why there are none.
struct RowOutcome {
  /// Usually one; several when a long text was cut into pieces; none when refused.
  std::vector<EncodedRow> rows;
  /// Length before the cut-off, in tokens; 0 when the row never became tokens.
  int64_t full_tokens = 0;
  bool was_cut = false;               ///< Tokens were lost to the cut-off.
  std::string refusal;                ///< Why the row is not used; "" when it is.
  std::vector<std::string> warnings;  ///< What to know of a row that is used.
  int64_t line = 0;                   ///< Line in the file; needed with a refusal or a warning.
};

/// Turns row `index` of a file into tokens. Each worker thread gets a function of its own.
using EncodeRow = std::function<RowOutcome(int64_t index)>;

/// What a cache file is made from.
struct CacheSource {
  std::string folder;                      ///< Where cache files lie; made when missing.
  std::string data_path;                   ///< For messages.
  std::array<uint64_t, 2> key{};           ///< Hash of all that the tokens depend on; names the file.
  int64_t num_rows = 0;                    ///< Rows to encode: 0 .. num_rows-1.
  std::function<EncodeRow()> make_encode;  ///< Called once a worker, from that worker.
  int num_threads = 1;
  bool is_strict = false;       ///< The first refused row is a DataError.
  bool is_overwriting = false;  ///< Encode again even where a good cache file exists.
};

/// XXH3-128 of `parts`, each with its length, so that ("ab", "c") and ("a", "bc") differ.
std::array<uint64_t, 2> content_key(std::span<const std::string_view> parts);

/// $DUOKA_CACHE, else $XDG_CACHE_HOME/duoka, else $HOME/.cache/duoka, else a folder in the system's
/// temporary one.
std::string default_cache_folder();

/// The tokens of one data file: a read-only mapping of a cache file (layout: docs/token-cache.md).
/// Safe to read from many threads and processes.
class TokenCache {
 public:
  /// Opens the cache file of `source`, making it first where it is missing, damaged or asked for again.
  ///
  /// Any number of processes may call this at once: one writes, holding a lock that ends with its life,
  /// the others wait and then read. The file appears whole or not at all. Opening reads it once to check
  /// its hash. Rows are encoded in parallel and written in order; memory held does not grow with them.
  /// Throws DataError "path: 0 of 3 rows usable; …" when no row is, or the first refusal when strict;
  /// SystemError when the folder cannot be written.
  static TokenCache open(const CacheSource& source, const Log& log);

  /// Maps a cache file that open() has checked before and nobody has changed since: of its bytes only the
  /// footer is looked at. Nothing when that is not in order.
  static std::optional<TokenCache> reopen(const std::string& path);
  /// Throws the first refusal, as a DataError.
  void require_no_refusal(const std::string& data_path) const;

  int64_t num_rows() const;
  int64_t num_tokens() const;  ///< Of all rows.
  int64_t num_tokens(int64_t row) const;
  /// Tokens that are a target: marked as trained and not the row's first.
  int64_t num_trained(int64_t row) const;
  /// Row of the data file that this row came from, counted from 0.
  int64_t source_row(int64_t row) const;
  /// Length of that row before any cut, in tokens.
  int64_t full_tokens(int64_t row) const;
  /// Appends row `row` to `ids` and `labels` (ids, or ignore_index where not trained; the first is never
  /// trained, for nothing predicts it).
  void read(int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels) const;

  struct Counts {
    int64_t num_read = 0;     ///< Rows of the data file looked at.
    int64_t num_used = 0;     ///< Of these, the ones that gave tokens.
    int64_t num_refused = 0;  ///< num_read - num_used.
    int64_t num_cut = 0;      ///< Of the used ones, those that lost tokens to the cut-off.
    int64_t num_warned = 0;   ///< Of the used ones, those with a warning.
    int64_t longest = 0;      ///< Longest row before the cut, in tokens, refused ones included.
  };
  Counts counts() const;
  /// A remark on a row of the data file.
  struct Remark {
    int64_t line = 0;
    std::string_view text;
  };
  /// The refused rows with the reason, in file order; at most `limit`.
  std::vector<Remark> refusals(int64_t limit) const;
  /// Warnings on used rows, in file order; at most `limit`. Only the first 1000 are kept.
  std::vector<Remark> warnings(int64_t limit) const;

  const std::string& path() const { return path_; }
  /// True when this call encoded the rows instead of finding them.
  bool was_built() const { return was_built_; }

 private:
  struct Content;
  TokenCache(std::string path, std::shared_ptr<const Content> content, bool was_built);
  /// The cache file, or null where it is missing or (with a warning) damaged.
  static std::shared_ptr<const Content> map(const std::string& path, const CacheSource& source,
                                            const Log& log);

  std::string path_;
  std::shared_ptr<const Content> content_;
  bool was_built_ = false;
};

}  // namespace duoka::data
