// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/sampler.h"

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

std::vector<int64_t> epoch_order(int64_t num_rows, uint64_t seed, int64_t epoch, bool is_shuffled) {
  std::vector<int64_t> order(static_cast<size_t>(num_rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (is_shuffled) {
    SplitMix random(mix_seeds(seed, static_cast<uint64_t>(SeedUse::row_order), static_cast<uint64_t>(epoch)));
    shuffle(order, random);
  }
  return order;
}

}  // namespace duoka::data
