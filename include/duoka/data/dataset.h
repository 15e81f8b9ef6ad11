// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "duoka/core/log.h"
#include "duoka/data/format.h"
#include "duoka/data/pack.h"
#include "duoka/data/token_cache.h"

namespace duoka::data {

class RowEncoder;
struct EncoderSource;

/// A data file and how to read it.
struct DataSource {
  std::string name;  ///< As the user wrote it.
  std::string path;
  RowFormat format;
  std::optional<int64_t> max_rows;  ///< Rows looked at, from the file's start; dataset_info's num_samples.
};

/// Finds each of `names`: an entry of `folder`/dataset_info.json (LLaMA-Factory's: file_name, formatting,
/// columns, tags, num_samples; a folder as file_name means each file in it), else a path, as given or
/// under `folder`. Throws ConfigError when a name is neither, naming the nearest; DataError for an entry that
/// asks for what there is not (ranking, hf_hub_url, script_url, images, …).
std::vector<DataSource> find_sources(const std::vector<std::string>& names, const std::string& folder);

struct DatasetOptions {
  std::optional<int64_t> max_samples;  ///< Rows looked at in each file, from its start.
  std::string cache_folder;            ///< "": default_cache_folder().
  bool overwrite_cache = false;
  bool is_strict = false;   ///< The first refused row is an error.
  int num_threads = 1;      ///< For tokenising.
  bool is_reported = true;  ///< What was read and refused is logged.
};

/// Tokenised data files, one after another: rows 0 .. num_rows-1 in the order of the sources and of their
/// files. Held as mappings of cache files; immutable and safe to read from many threads.
class Dataset {
 public:
  /// Tokenises what is not in the cache yet; any number of ranks may call this at once. Says with
  /// `log` what was read, used and refused, with the first reasons, unless told not to.
  /// The encoder is opened only where the cache cannot be told to be as it would make it. Throws DataError
  /// when a file has no usable row, or (strict) one that is not.
  static Dataset open(const std::vector<DataSource>& sources, const EncoderSource& encoder,
                      const DatasetOptions& options, const Log& log);
  static Dataset open(const std::vector<DataSource>& sources, const RowEncoder& encoder,
                      const DatasetOptions& options, const Log& log);

  int64_t num_rows() const { return first_rows_.back(); }
  RowLength length(int64_t row) const;
  /// Appends the row's ids and labels (see TokenCache::read).
  void read(int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels) const;

  struct Part {
    DataSource source;
    TokenCache cache;
  };
  std::span<const Part> parts() const { return parts_; }
  /// Sum over the parts.
  TokenCache::Counts counts() const;

 private:
  struct Place {
    const TokenCache& cache;
    int64_t row;
  };
  Place place(int64_t row) const;

  std::vector<Part> parts_;
  std::vector<int64_t> first_rows_{0};  ///< First row of each part, then the number of rows.
};

/// "rows read 8, used 6, refused 2, cut 1".
std::string summary(const TokenCache::Counts& counts);

/// Some rows of a dataset, for training or for evaluation. Holds 8 bytes for each row that is picked or left
/// out one by one, and nothing else.
class RowSet {
 public:
  /// All rows.
  explicit RowSet(std::shared_ptr<const Dataset> dataset);
  RowSet(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> ids);
  /// All but those of `ids`, which ascend.
  static RowSet all_but(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> ids);

  int64_t size() const { return size_; }
  /// Row number in the dataset: the row's identity, whatever the split.
  int64_t id(int64_t index) const;
  RowLength length(int64_t index) const { return dataset_->length(id(index)); }
  /// Refers to this set.
  RowLengths lengths() const {
    return {size(), [this](int64_t index) { return length(index); }};
  }
  void read(int64_t index, std::vector<int32_t>& ids, std::vector<int32_t>& labels) const;
  const Dataset& dataset() const { return *dataset_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  int64_t size_ = 0;
  bool is_picked_ = false;
  std::vector<int64_t> ids_;  ///< Picked, or left out.
};

struct Split {
  RowSet train;
  RowSet held_out;
};

/// Rows to hold out of `num_rows` for `val_size`: a share when under 1 (rounded up, so at least one row),
/// else a number of rows. Throws ConfigError when it is negative, not whole, or leaves no row to train on.
int64_t num_held_out(double val_size, int64_t num_rows);

/// Holds rows out at random: a pure function of (rows of the dataset, val_size, seed). Both sides keep the
/// dataset's order, share no row and together have all. val_size 0 holds out nothing; else 8 bytes for each
/// row of the dataset are held meanwhile.
Split split(std::shared_ptr<const Dataset> dataset, double val_size, uint64_t seed);

}  // namespace duoka::data
