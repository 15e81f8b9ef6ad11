// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace duoka {

/// What the words of one token's units are made from.
struct DropoutToken {
  uint64_t site_key = 0;
  uint64_t row_key = 0;
  uint32_t position = 0;
};

/// Columns come in groups of 64: column 64 g + 16 w + l is word w of the counter with lane 16 g + l. So that
/// sixteen lanes are worked on at once and each writes its words side by side with its neighbours'.
inline constexpr int64_t dropout_lanes = 16, dropout_group = 4 * dropout_lanes;

/// y = x * scale where the unit's word is at least `threshold`, else 0. x, y: columns [first, first + count)
/// of a row; may be the same. Instantiated for float, double, BFloat16 and Half.
template <class T>
void drop_row(const T* x, T* y, int64_t first, int64_t count, DropoutToken token, uint32_t threshold,
              double scale);

}  // namespace duoka
