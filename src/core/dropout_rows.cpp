// SPDX-License-Identifier: Apache-2.0
#include "core/dropout_rows.h"

#include <algorithm>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/vector_loop.h"
#include "duoka/core/philox.h"

namespace duoka {

namespace {

/// Philox::words for sixteen counters that differ in the last word, lane by lane: words[w][l].
[[gnu::always_inline]] inline void philox_lanes(DropoutToken token, uint32_t first_lane,
                                                uint32_t (&words)[4][dropout_lanes]) {
  for (int64_t l = 0; l < dropout_lanes; ++l) {
    words[0][l] = static_cast<uint32_t>(token.row_key);
    words[1][l] = static_cast<uint32_t>(token.row_key >> 32);
    words[2][l] = token.position;
    words[3][l] = first_lane + static_cast<uint32_t>(l);
  }
  auto key_0 = static_cast<uint32_t>(token.site_key), key_1 = static_cast<uint32_t>(token.site_key >> 32);
  for (int round = 0; round < Philox::num_rounds; ++round) {
    for (int64_t l = 0; l < dropout_lanes; ++l) {
      const uint64_t product_0 = uint64_t{Philox::multiplier_0} * words[0][l];
      const uint64_t product_1 = uint64_t{Philox::multiplier_1} * words[2][l];
      words[0][l] = static_cast<uint32_t>(product_1 >> 32) ^ words[1][l] ^ key_0;
      words[1][l] = static_cast<uint32_t>(product_1);
      words[2][l] = static_cast<uint32_t>(product_0 >> 32) ^ words[3][l] ^ key_1;
      words[3][l] = static_cast<uint32_t>(product_0);
    }
    key_0 += Philox::weyl_0;
    key_1 += Philox::weyl_1;
  }
}

}  // namespace

template <class T>
DUOKA_VECTOR_CLONES void drop_row(const T* x, T* y, int64_t first, int64_t count, DropoutToken token,
                                  uint32_t threshold, double scale) {
  using A = Accumulate<T>;
  const A factor = static_cast<A>(scale);
  uint32_t words[4][dropout_lanes];
  const uint32_t* const flat = &words[0][0];
  for (int64_t group = first / dropout_group * dropout_group; group < first + count; group += dropout_group) {
    philox_lanes(token, static_cast<uint32_t>(group / 4), words);
    const int64_t skipped = std::max<int64_t>(first - group, 0),
                  num_units = std::min(dropout_group, first + count - group) - skipped;
    const uint32_t* const word = flat + skipped;
    const T* const from = x + (group + skipped - first);
    T* const to = y + (group + skipped - first);
    // Scaled before it is chosen, and written to a place of its own first (x may be y): else the compiler
    // branches on each unit where the type is a narrow one.
    T units[dropout_group];
    for (int64_t i = 0; i < num_units; ++i) {
      const A scaled = static_cast<A>(from[i]) * factor;
      units[i] = static_cast<T>(word[i] >= threshold ? scaled : A{0});
    }
    std::copy_n(units, num_units, to);
  }
}

template void drop_row(const float*, float*, int64_t, int64_t, DropoutToken, uint32_t, double);
template void drop_row(const double*, double*, int64_t, int64_t, DropoutToken, uint32_t, double);
template void drop_row(const c10::BFloat16*, c10::BFloat16*, int64_t, int64_t, DropoutToken, uint32_t,
                       double);
template void drop_row(const c10::Half*, c10::Half*, int64_t, int64_t, DropoutToken, uint32_t, double);

}  // namespace duoka
