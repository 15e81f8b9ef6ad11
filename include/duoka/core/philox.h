// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace duoka {

/// Philox-4x32-10: four random words as a pure function of a counter and a key, so that a value depends
/// on what it belongs to and never on who computes it, in which order, or how often.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3.
struct Philox {
  static constexpr uint32_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
  static constexpr uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  static constexpr int num_rounds = 10;

  using Words = std::array<uint32_t, 4>;
  static constexpr Words words(Words counter, uint64_t key) {
    auto key_0 = static_cast<uint32_t>(key), key_1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < num_rounds; ++round) {
      const uint64_t product_0 = uint64_t{multiplier_0} * counter[0];
      const uint64_t product_1 = uint64_t{multiplier_1} * counter[2];
      counter = {
          static_cast<uint32_t>(product_1 >> 32) ^ counter[1] ^ key_0, static_cast<uint32_t>(product_1),
          static_cast<uint32_t>(product_0 >> 32) ^ counter[3] ^ key_1, static_cast<uint32_t>(product_0)};
      key_0 += weyl_0;
      key_1 += weyl_1;
    }
    return counter;
  }
};

/// A key for the thing called `name` in a run with this seed; the same on every machine.
/// FNV-1a over the name, then the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t random_key(uint64_t seed, std::string_view name);

}  // namespace duoka
