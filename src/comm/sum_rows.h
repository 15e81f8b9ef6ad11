// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <c10/core/ScalarType.h>

#include "duoka/comm/collectives.h"

namespace duoka::comm {

/// out[i] = the sum, largest or smallest of rows[r][i] over r, i in [0, numel), combined in the order of the
/// rows. f16 and bf16 are computed in f32 and rounded once; whole numbers wrap around. `out` may be one of
/// the rows. dtype: f32, f64, f16, bf16, i32, i64, u8, else StateError. One pass over memory.
void combine_rows(std::span<const void* const> rows, void* out, int64_t numel, at::ScalarType dtype, Op op);

}  // namespace duoka::comm
