// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <ranges>
#include <utility>

#include "data/cache_stamp.h"
#include "data/json_row.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/data/row_encoder.h"
#include "duoka/data/rows.h"
#include "duoka/data/sampler.h"

namespace duoka::data {

namespace {

constexpr int64_t refusals_logged = 5;

/// Rows of a file as the encoder wants them. The file must outlive what make() gives.
class RowSource {
 public:
  RowSource(const DataSource& source, const RowEncoder& encoder, const DatasetOptions& options)
      : file_(source.path), format_(source.format), encoder_(&encoder) {
    is_plain_ = file_.layout() == FileLayout::plain_text;
    if (is_plain_ && encoder.rules().stage == Stage::sft)
      throw DataError(
          source.path +
          ": plain text; stage sft wants JSON rows (Alpaca, ShareGPT, messages), plain text is for stage pt");
    num_rows_ = std::min({file_.num_rows(), source.max_rows.value_or(file_.num_rows()),
                          options.max_samples.value_or(file_.num_rows())});
    // Defects are told as refused rows, after the others; not when the file's end is not looked at.
    num_defects_ = num_rows_ == file_.num_rows() ? static_cast<int64_t>(file_.defects().size()) : 0;
  }

  int64_t num_rows() const { return num_rows_ + num_defects_; }

  std::array<uint64_t, 2> key() const {
    const std::string format = format_.identity();
    const std::string encoding = encoder_->identity();
    const std::string rows = std::to_string(num_rows_);
    return content_key(std::array<std::string_view, 4>{file_.bytes(), format, encoding, rows});
  }

  /// A function for one thread.
  EncodeRow make() const {
    return [this, reader = std::make_shared<RowReader>(format_, encoder_->rules().stage)](int64_t index) {
      if (index >= num_rows_) return defect(file_.defects()[static_cast<size_t>(index - num_rows_)]);
      RowOutcome outcome = encode(index, *reader);
      if (!outcome.refusal.empty() || !outcome.warnings.empty()) outcome.line = file_.line(index);
      return outcome;
    };
  }

 private:
  static RowOutcome defect(const FileDefect& defect) {
    RowOutcome outcome;
    outcome.refusal = defect.reason;
    outcome.line = defect.line;
    return outcome;
  }

  RowContent content(int64_t index, RowReader& reader) const {
    const std::string_view row = file_.row(index);
    if (!is_plain_) return reader.read(row);
    if (!is_utf8(row)) throw DataError("not valid UTF-8");
    return std::string(row);
  }

  RowOutcome encode(int64_t index, RowReader& reader) const {
    RowOutcome outcome;
    try {
      return encoder_->encode(content(index, reader));
    } catch (const DataError& error) {
      outcome.refusal = error.what();
    } catch (const FormatError& error) {  // The template fails on this row; it may do on others or not.
      outcome.refusal = error.what();
    }
    return outcome;
  }

  RowFile file_;
  RowFormat format_;
  const RowEncoder* encoder_;
  bool is_plain_ = false;
  int64_t num_rows_ = 0;
  int64_t num_defects_ = 0;
};

std::string limit_text(const std::optional<int64_t>& limit) { return limit ? std::to_string(*limit) : ""; }

CacheStamp stamp_of(const DataSource& source, const EncoderSource& encoder, const DatasetOptions& options) {
  const std::string folder = options.cache_folder.empty() ? default_cache_folder() : options.cache_folder,
                    format = source.format.identity(), most = limit_text(source.max_rows),
                    most_here = limit_text(options.max_samples);
  std::vector<std::filesystem::path> inputs{source.path};
  inputs.insert(inputs.end(), encoder.files.begin(), encoder.files.end());
  return {folder, std::move(inputs),
          std::array<std::string_view, 4>{format, encoder.identity, most, most_here}};
}

/// The cache as it was when it was last checked, without a look at the rows or the tokens.
std::optional<TokenCache> reopen_cache(const DataSource& source, const CacheStamp& stamp,
                                       const FileState& inputs, const DatasetOptions& options) {
  const auto path = options.overwrite_cache ? std::nullopt : stamp.find(inputs);
  auto cache = path ? TokenCache::reopen(path->string()) : std::nullopt;
  if (cache && options.is_strict) cache->require_no_refusal(source.path);
  return cache;
}

TokenCache open_cache(const DataSource& source, const EncoderSource& encoder, const DatasetOptions& options,
                      const Log& log) {
  const CacheStamp stamp = stamp_of(source, encoder, options);
  const FileState inputs = stamp.state_of_inputs();
  if (auto known = reopen_cache(source, stamp, inputs, options)) return *std::move(known);
  const RowSource rows(source, encoder.open(), options);
  CacheSource cache;
  cache.folder = options.cache_folder;
  cache.data_path = source.path;
  cache.key = rows.key();
  cache.num_rows = rows.num_rows();
  cache.make_encode = [&rows] { return rows.make(); };
  cache.num_threads = options.num_threads;
  cache.is_strict = options.is_strict;
  cache.is_overwriting = options.overwrite_cache;
  TokenCache opened = TokenCache::open(cache, log);
  stamp.write(inputs, opened.path());
  return opened;
}

void report(const DataSource& source, const TokenCache& cache, const Log& log) {
  if (log.rank() != 0) return;
  const TokenCache::Counts counts = cache.counts();
  log.info(
      text("data ", source.path, ": ", summary(counts), cache.was_built() ? "" : " (from the token cache)"));
  for (const auto& refusal : cache.refusals(refusals_logged))
    log.warning(text(source.path, ":", refusal.line, ": refused: ", refusal.text));
  for (const auto& warning : cache.warnings(refusals_logged))
    log.warning(text(source.path, ":", warning.line, ": ", warning.text));
  const int64_t hidden = std::max<int64_t>(0, counts.num_refused - refusals_logged) +
                         std::max<int64_t>(0, counts.num_warned - refusals_logged);
  if (hidden > 0)
    log.warning(text(source.path, ": ", hidden, " more remarks; `duoka data inspect` shows them"));
}

}  // namespace

Dataset Dataset::open(const std::vector<DataSource>& sources, const RowEncoder& encoder,
                      const DatasetOptions& options, const Log& log) {
  const EncoderSource source{{}, encoder.identity(), [&]() -> const RowEncoder& { return encoder; }};
  return open(sources, source, options, log);
}

Dataset Dataset::open(const std::vector<DataSource>& sources, const EncoderSource& encoder,
                      const DatasetOptions& options, const Log& log) {
  if (sources.empty()) throw ConfigError("no data set is named; set `dataset`");
  Dataset dataset;
  for (const DataSource& source : sources) {
    TokenCache cache = open_cache(source, encoder, options, log);
    if (options.is_reported) report(source, cache, log);
    dataset.first_rows_.push_back(dataset.num_rows() + cache.num_rows());
    dataset.parts_.push_back({source, std::move(cache)});
  }
  return dataset;
}

Dataset::Place Dataset::place(int64_t row) const {
  const auto next = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
  const auto part = static_cast<size_t>(next - first_rows_.begin()) - 1;
  return {parts_[part].cache, row - first_rows_[part]};
}

RowLength Dataset::length(int64_t row) const {
  const auto [cache, at] = place(row);
  return {static_cast<int32_t>(cache.num_tokens(at)), static_cast<int32_t>(cache.num_trained(at))};
}

void Dataset::read(int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels) const {
  const auto [cache, at] = place(row);
  cache.read(at, ids, labels);
}

TokenCache::Counts Dataset::counts() const {
  TokenCache::Counts sum;
  for (const Part& part : parts_) {
    const TokenCache::Counts counts = part.cache.counts();
    sum.num_read += counts.num_read;
    sum.num_used += counts.num_used;
    sum.num_refused += counts.num_refused;
    sum.num_cut += counts.num_cut;
    sum.num_warned += counts.num_warned;
    sum.longest = std::max(sum.longest, counts.longest);
  }
  return sum;
}

std::string summary(const TokenCache::Counts& counts) {
  return text("rows read ", counts.num_read, ", used ", counts.num_used, ", refused ", counts.num_refused,
              ", cut ", counts.num_cut, "; longest ", counted(counts.longest, "token"));
}

RowSet::RowSet(std::shared_ptr<const Dataset> dataset)
    : dataset_(std::move(dataset)), size_(dataset_->num_rows()) {}

RowSet::RowSet(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> ids)
    : dataset_(std::move(dataset)),
      size_(static_cast<int64_t>(ids.size())),
      is_picked_(true),
      ids_(std::move(ids)) {}

RowSet RowSet::all_but(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> ids) {
  RowSet rows(std::move(dataset));
  rows.ids_ = std::move(ids);
  rows.size_ -= static_cast<int64_t>(rows.ids_.size());
  return rows;
}

int64_t RowSet::id(int64_t index) const {
  if (is_picked_) return ids_[static_cast<size_t>(index)];
  // ids_[k] - k rows are left before the k-th that is left out.
  const auto numbers = std::views::iota(size_t{0}, ids_.size());
  const auto is_before = [&](size_t k) { return ids_[k] - static_cast<int64_t>(k) <= index; };
  return index + (std::ranges::partition_point(numbers, is_before) - numbers.begin());
}

void RowSet::read(int64_t index, std::vector<int32_t>& ids, std::vector<int32_t>& labels) const {
  dataset_->read(id(index), ids, labels);
}

int64_t num_held_out(double val_size, int64_t num_rows) {
  if (!(val_size >= 0))
    throw ConfigError(text("val_size = ", val_size, "; wanted a share under 1 or a number of rows"));
  if (val_size >= 1 && val_size != std::floor(val_size))
    throw ConfigError(text("val_size = ", val_size, "; wanted a share under 1 or a whole number of rows"));
  const double rows = val_size < 1 ? std::ceil(val_size * static_cast<double>(num_rows)) : val_size;
  if (rows >= static_cast<double>(num_rows))
    throw ConfigError(text("val_size = ", val_size, " holds out ", rows, " of ", counted(num_rows, "row"),
                           " and leaves none to train on"));
  return static_cast<int64_t>(rows);
}

Split split(std::shared_ptr<const Dataset> dataset, double val_size, uint64_t seed) {
  const int64_t num_rows = dataset->num_rows();
  const int64_t num_out = val_size == 0 ? 0 : num_held_out(val_size, num_rows);
  if (num_out == 0) return {RowSet(dataset), RowSet(dataset, {})};
  std::vector<int64_t> ids(static_cast<size_t>(num_rows));
  std::iota(ids.begin(), ids.end(), int64_t{0});
  SplitMix random(mix_seeds(seed, static_cast<uint64_t>(SeedUse::split)));
  shuffle(ids, random);
  std::vector<int64_t> out(ids.begin(), ids.begin() + num_out);
  std::sort(out.begin(), out.end());
  return {RowSet::all_but(dataset, out), RowSet(std::move(dataset), std::move(out))};
}

}  // namespace duoka::data
