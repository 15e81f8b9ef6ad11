// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "duoka/core/stream.h"

namespace duoka {

/// What rank r of c has of one row under context parallelism: the row is cut in 2c chunks whose lengths
/// differ by at most one, and r has chunk r (`low`) and chunk 2c-1-r (`high`). Under a causal mask the early
/// chunks see little and the late ones much, so that the two together are the same work on every rank.
/// Source: Dubey et al., "The Llama 3 Herd of Models", arXiv:2407.21783, section 3.3.2.
struct RowPart {
  int64_t low_begin = 0, low_length = 0;    ///< In positions of the row.
  int64_t high_begin = 0, high_length = 0;  ///< The same; high_begin >= low_begin + low_length.

  int64_t length() const { return low_length + high_length; }
};

RowPart row_part(int64_t row_length, int rank, int size);

/// The part of `stream` that rank `rank` of `size` computes: of each row what row_part() says, low before
/// high. Ids, targets, positions, keys and with them dropout are those of the same tokens in the whole; so
/// every layer but attention works on it unchanged. Trained tokens and losses of all parts add up to the
/// whole's. A part may be without tokens. `size` 1 gives the stream itself. On the stream's device; on CUDA
/// it waits once for it (to count trained tokens), so cut before moving there where that is possible. Throws
/// StateError for a stream that has been cut, or a rank that is not one of `size`.
Stream cut_stream(const Stream& stream, int rank, int size);

}  // namespace duoka
