// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/sampler.h"

#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

namespace duoka::data {

namespace {

/// SplitMix64's finaliser: a bijection in which each input bit reaches each output bit.
uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Of which the order is a table. Changing it changes the order of rows in runs that go on.
constexpr int64_t most_rows_held = int64_t{1} << 18;

constexpr uint64_t golden_step = 0x9E3779B97F4A7C15u;

}  // namespace

uint64_t SplitMix::next() { return scramble(state_ += golden_step); }

uint64_t SplitMix::below(uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  // The low half of random * bound is uniform over multiples of bound; the first 2^64 mod bound of its
  // values would give some results once more than others.
  const uint64_t biased = (0 - bound) % bound;
  Wide product = 0;
  do {
    product = static_cast<Wide>(next()) * bound;
  } while (static_cast<uint64_t>(product) < biased);
  return static_cast<uint64_t>(product >> 64);
}

uint64_t mix_seeds(uint64_t a, uint64_t b, uint64_t c) {
  // Scrambling between the words keeps (1, 2) and (2, 1) apart.
  uint64_t state = scramble(a + golden_step);
  state = scramble(state + b + golden_step);
  return scramble(state + c + golden_step);
}

void shuffle(std::vector<int64_t>& values, SplitMix& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

RowOrder::RowOrder(int64_t num_rows, uint64_t seed, int64_t epoch, bool is_shuffled)
    : num_rows_(static_cast<uint64_t>(num_rows)) {
  if (!is_shuffled) return;
  SplitMix random(mix_seeds(seed, static_cast<uint64_t>(SeedUse::row_order), static_cast<uint64_t>(epoch)));
  if (num_rows <= most_rows_held) {
    table_.resize(static_cast<size_t>(num_rows));
    std::iota(table_.begin(), table_.end(), int64_t{0});
    shuffle(table_, random);
    return;
  }
  const int bits = std::bit_width(num_rows_ - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  for (uint64_t& key : keys_) key = random.next();
}

int64_t RowOrder::operator[](int64_t position) const {
  if (!table_.empty()) return table_[static_cast<size_t>(position)];
  auto row = static_cast<uint64_t>(position);
  if (low_bits_ == 0) return position;
  // A power of two is permuted, of which more than half are rows; what is none is where to go on from.
  do row = permuted(row);
  while (row >= num_rows_);
  return static_cast<int64_t>(row);
}

uint64_t RowOrder::permuted(uint64_t x) const {
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1, high_mask = (uint64_t{1} << high_bits_) - 1;
  uint64_t low = x & low_mask, high = x >> low_bits_;
  // Each half in turn is changed by the other, which can be undone, so no two positions get one row.
  for (size_t round = 0; round < keys_.size(); round += 2) {
    low ^= scramble(high + keys_[round]) & low_mask;
    high ^= scramble(low + keys_[round + 1]) & high_mask;
  }
  return high << low_bits_ | low;
}

std::vector<int64_t> epoch_order(int64_t num_rows, uint64_t seed, int64_t epoch, bool is_shuffled) {
  const RowOrder order(num_rows, seed, epoch, is_shuffled);
  std::vector<int64_t> rows(static_cast<size_t>(num_rows));
  for (int64_t i = 0; i < num_rows; ++i) rows[static_cast<size_t>(i)] = order[i];
  return rows;
}

}  // namespace duoka::data
