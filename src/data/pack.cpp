// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "data/balance.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/data/sampler.h"

namespace duoka::data {

namespace {

constexpr int64_t min_window_rows = 4096;
constexpr int64_t min_window_streams = 64;

void check(const RowLengths& lengths, const PackOptions& options) {
  const auto want_positive = [](const char* name, int64_t value) {
    if (value < 1) throw StateError(text("plan_epoch: ", name, " = ", value, "; wanted at least 1"));
  };
  want_positive("streams_per_update", options.streams_per_update);
  if (!options.is_packing) return want_positive("rows_per_stream", options.rows_per_stream);
  want_positive("tokens_per_stream", options.tokens_per_stream);
  if (lengths.size() > std::numeric_limits<uint32_t>::max())
    throw DataError(text("packing ", counted(lengths.size(), "row"), "; at most 2^32 can be packed"));
  for (int64_t row = 0; row < lengths.size(); ++row)
    if (const int64_t tokens = lengths[row].num_tokens; tokens > options.tokens_per_stream)
      throw StateError(text("plan_epoch: a row of ", tokens, " tokens does not fit into a stream of ",
                            options.tokens_per_stream));
}

/// Streams laid end to end: the rows, and where each stream begins.
struct Streams {
  std::vector<uint32_t> rows;
  std::vector<uint32_t> starts;
};

/// Positions of `order` in the sequence in which rows are placed. Longest first would fill streams best,
/// but put the short rows, which come last, among themselves in every epoch. So only rows of a sixteenth of
/// a stream and more go by length; then three quarters of the short ones in the order given; and what is
/// left by length again, to fill gaps.
std::vector<int64_t> placing_order(std::span<const int64_t> order, const RowLengths& lengths, int64_t room) {
  const auto tokens = [&](int64_t position) {
    return int64_t{lengths[order[static_cast<size_t>(position)]].num_tokens};
  };
  const auto is_longer = [&](int64_t a, int64_t b) { return tokens(a) > tokens(b); };
  std::vector<int64_t> positions(order.size());
  std::iota(positions.begin(), positions.end(), int64_t{0});
  const auto first_short = std::stable_partition(
      positions.begin(), positions.end(), [&](int64_t position) { return tokens(position) >= room / 16; });
  std::stable_sort(positions.begin(), first_short, is_longer);
  std::stable_sort(first_short + (positions.end() - first_short) * 3 / 4, positions.end(), is_longer);
  return positions;
}

/// A stream for each row of `order`: each row goes into the fullest stream that has room for it.
struct Bins {
  std::vector<int64_t> bin_of;  ///< By position in the order.
  int64_t count = 0;
};
Bins best_fit(std::span<const int64_t> order, const RowLengths& lengths, int64_t room) {
  const auto tokens = [&](int64_t position) {
    return int64_t{lengths[order[static_cast<size_t>(position)]].num_tokens};
  };
  Bins bins{std::vector<int64_t>(order.size()), 0};
  std::set<std::pair<int64_t, int64_t>> open;  // (room left, bin)
  for (const int64_t position : placing_order(order, lengths, room)) {
    const int64_t need = tokens(position);
    std::pair<int64_t, int64_t> bin{room, bins.count};
    if (const auto found = open.lower_bound({need, 0}); found != open.end())
      bin = open.extract(found).value();
    else
      ++bins.count;
    bins.bin_of[static_cast<size_t>(position)] = bin.second;
    if (bin.first > need) open.emplace(bin.first - need, bin.second);
  }
  return bins;
}

/// Numbers bins by where their first row stands in the order.
void number_by_first_row(Bins& bins) {
  std::vector<int64_t> number(static_cast<size_t>(bins.count), -1);
  int64_t next = 0;
  for (int64_t& bin : bins.bin_of) {
    int64_t& its = number[static_cast<size_t>(bin)];
    if (its < 0) its = next++;
    bin = its;
  }
}

/// Appends the bins to `streams`, bin numbers[k] as the k-th; rows inside keep their order.
void append_bins(const Bins& bins, std::span<const int64_t> order, std::span<const int64_t> numbers,
                 Streams& streams) {
  std::vector<int64_t> place(
      static_cast<size_t>(bins.count));  // Of each bin: rows in it, then its next slot.
  for (const int64_t bin : bins.bin_of) ++place[static_cast<size_t>(bin)];
  auto at = static_cast<int64_t>(streams.rows.size());
  for (const int64_t bin : numbers) {
    streams.starts.push_back(static_cast<uint32_t>(at));
    at += std::exchange(place[static_cast<size_t>(bin)], at);
  }
  streams.rows.resize(static_cast<size_t>(at));
  for (size_t position = 0; position < order.size(); ++position)
    streams.rows[static_cast<size_t>(place[static_cast<size_t>(bins.bin_of[position])]++)] =
        static_cast<uint32_t>(order[position]);
}

/// Ends of the windows of `order`; a remainder too small for a window of its own goes to the last.
std::vector<size_t> window_ends(std::span<const int64_t> order, const RowLengths& lengths, int64_t room) {
  std::vector<size_t> ends;
  int64_t rows = 0;
  int64_t tokens = 0;
  for (size_t position = 0; position < order.size(); ++position) {
    ++rows;
    tokens += lengths[order[position]].num_tokens;
    if (rows < min_window_rows || tokens / room < min_window_streams) continue;
    ends.push_back(position + 1);
    rows = tokens = 0;
  }
  if (ends.empty()) ends.push_back(order.size());
  ends.back() = order.size();
  return ends;
}

Streams packed(std::span<const int64_t> order, const RowLengths& lengths, const PackOptions& options,
               int64_t epoch) {
  Streams streams;
  SplitMix random(
      mix_seeds(options.seed, static_cast<uint64_t>(SeedUse::stream_order), static_cast<uint64_t>(epoch)));
  size_t begin = 0;
  for (const size_t end : window_ends(order, lengths, options.tokens_per_stream)) {
    const auto window = order.subspan(begin, end - begin);
    Bins bins = best_fit(window, lengths, options.tokens_per_stream);
    number_by_first_row(bins);
    std::vector<int64_t> numbers(static_cast<size_t>(bins.count));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    if (options.is_shuffled) shuffle(numbers, random);
    append_bins(bins, window, numbers, streams);
    begin = end;
  }
  return streams;
}

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What a row takes of a step, in quarters of a token's way through the layers: a trained token also goes
/// through the vocabulary head, which takes a quarter as long in small models and less in large ones.
int64_t cost(const RowLength& row) { return int64_t{4} * row.num_tokens + row.num_trained; }

}  // namespace

EpochPlan::EpochPlan(RowLengths lengths, const PackOptions& options, RowOrder order)
    : lengths_(std::move(lengths)), options_(options), order_(std::move(order)) {}

EpochPlan plan_epoch(RowLengths lengths, const PackOptions& options, int64_t epoch) {
  check(lengths, options);
  const int64_t num_rows = lengths.size();
  if (!options.is_packing)
    return {std::move(lengths), options, RowOrder(num_rows, options.seed, epoch, options.is_shuffled)};
  Streams streams =
      packed(epoch_order(num_rows, options.seed, epoch, options.is_shuffled), lengths, options, epoch);
  EpochPlan plan(std::move(lengths), options, RowOrder(0, 0, 0));
  plan.rows_ = std::move(streams.rows);
  plan.starts_ = std::move(streams.starts);
  plan.starts_.push_back(static_cast<uint32_t>(num_rows));
  plan.starts_.shrink_to_fit();
  return plan;
}

int64_t EpochPlan::num_streams() const {
  return options_.is_packing ? static_cast<int64_t>(starts_.size()) - 1
                             : ceil_divide(num_rows(), options_.rows_per_stream);
}

int64_t EpochPlan::num_updates() const { return ceil_divide(num_streams(), options_.streams_per_update); }

int64_t EpochPlan::num_tokens() const {
  int64_t tokens = 0;
  for (int64_t row = 0; row < num_rows(); ++row) tokens += lengths_[row].num_tokens;
  return tokens;
}

int64_t EpochPlan::start(int64_t index) const {
  return options_.is_packing ? starts_[static_cast<size_t>(index)]
                             : std::min(index * options_.rows_per_stream, num_rows());
}

int64_t EpochPlan::row(int64_t position) const {
  return options_.is_packing ? rows_[static_cast<size_t>(position)] : order_[position];
}

std::vector<StreamRows> EpochPlan::packed_update(int64_t index) const {
  const int64_t first = index * options_.streams_per_update;
  const int64_t last = std::min(first + options_.streams_per_update, num_streams());
  std::vector<StreamRows> streams(static_cast<size_t>(last - first));
  for (int64_t stream = first; stream < last; ++stream)
    for (int64_t at = start(stream); at < start(stream + 1); ++at)
      streams[static_cast<size_t>(stream - first)].push_back(row(at));
  return streams;
}

std::vector<StreamRows> EpochPlan::dealt_update(int64_t index) const {
  const int64_t first = rows_before(index);
  std::vector<int64_t> costs;
  for (int64_t at = first; at < rows_before(index + 1); ++at) costs.push_back(cost(lengths_[row(at)]));
  std::vector<StreamRows> streams = balanced(costs, options_.rows_per_stream);
  for (StreamRows& stream : streams)
    for (int64_t& at : stream) at = row(first + at);
  return streams;
}

std::vector<StreamRows> EpochPlan::update(int64_t index) const {
  return options_.is_packing ? packed_update(index) : dealt_update(index);
}

std::vector<StreamRows> EpochPlan::update_of_rank(int64_t index, int64_t rank, int64_t num_ranks) const {
  std::vector<StreamRows> all = update(index);
  std::vector<StreamRows> own(static_cast<size_t>(ceil_divide(static_cast<int64_t>(all.size()), num_ranks)));
  for (size_t step = 0; step < own.size(); ++step)
    if (const size_t at = step * static_cast<size_t>(num_ranks) + static_cast<size_t>(rank); at < all.size())
      own[step] = std::move(all[at]);
  return own;
}

int64_t EpochPlan::num_trained(int64_t index) const {
  int64_t trained = 0;
  for (int64_t at = rows_before(index); at < rows_before(index + 1); ++at)
    trained += lengths_[row(at)].num_trained;
  return trained;
}

int64_t EpochPlan::rows_before(int64_t index) const {
  return start(std::min(index * options_.streams_per_update, num_streams()));
}

int64_t EpochPlan::update_after(int64_t num_rows) const {
  int64_t index = 0;
  while (index < num_updates() && rows_before(index + 1) <= num_rows) ++index;
  return index;
}

double EpochPlan::fill(int64_t tokens_per_stream) const {
  return static_cast<double>(num_tokens()) / static_cast<double>(num_streams() * tokens_per_stream);
}

}  // namespace duoka::data
