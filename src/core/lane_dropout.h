// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/macros/Macros.h>

#include "core/dropout_rows.h"
#include "core/lanes.h"
#include "core/vector_loop.h"
#include "duoka/core/philox.h"

namespace duoka::lanes {

/// drop_row() by lanes: one makes the four words of a counter, for columns dropout_lanes apart, so that
/// neighbours work on neighbouring columns.
template <class T, class Lanes>
C10_DEVICE void drop_row(const Lanes& lanes, const T* x, T* y, int64_t first, int64_t count,
                         DropoutToken token, uint32_t threshold, Accumulate<T> factor) {
  using A = Accumulate<T>;
  const int64_t first_group = first / dropout_group,
                num_groups = (first + count + dropout_group - 1) / dropout_group - first_group;
  lanes.each(num_groups * dropout_lanes, [&](int64_t item) {
    const int64_t group = first_group + item / dropout_lanes, lane = item % dropout_lanes;
    const auto words =
        Philox::words({static_cast<uint32_t>(token.row_key), static_cast<uint32_t>(token.row_key >> 32),
                       token.position, static_cast<uint32_t>(group * dropout_lanes + lane)},
                      token.site_key);
    for (int64_t w = 0; w < 4; ++w) {
      const int64_t i = group * dropout_group + w * dropout_lanes + lane - first;
      if (i >= 0 && i < count)
        y[i] =
            static_cast<T>(words[static_cast<size_t>(w)] >= threshold ? static_cast<A>(x[i]) * factor : A{0});
    }
  });
}

}  // namespace duoka::lanes
