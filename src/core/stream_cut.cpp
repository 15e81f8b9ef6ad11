// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/stream_cut.h"

#include <numeric>

#include <ATen/ops/tensor.h>

#include "duoka/core/error.h"

namespace duoka {

namespace {

int64_t chunk_begin(int64_t row_length, int64_t chunk, int64_t num_chunks) {
  return row_length * chunk / num_chunks;
}

void check(const Stream& stream, int rank, int size) {
  if (size < 1 || rank < 0 || rank >= size)
    throw StateError("cut_stream: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                     "; wanted a rank from 0 to size - 1");
  if (!stream.row_lengths.empty())
    throw StateError("cut_stream: the stream is a part already; wanted one with whole rows");
}

/// Appends the tokens [begin, begin + count) of the whole stream.
void append(std::vector<int64_t>& tokens, int64_t begin, int64_t count) {
  tokens.resize(tokens.size() + static_cast<size_t>(count));
  std::iota(tokens.end() - count, tokens.end(), begin);
}

}  // namespace

RowPart row_part(int64_t row_length, int rank, int size) {
  const int64_t num_chunks = int64_t{2} * size, low = rank, high = num_chunks - 1 - rank;
  const auto begin = [&](int64_t chunk) { return chunk_begin(row_length, chunk, num_chunks); };
  return {begin(low), begin(low + 1) - begin(low), begin(high), begin(high + 1) - begin(high)};
}

Stream cut_stream(const Stream& stream, int rank, int size) {
  check(stream, rank, size);
  if (size == 1) return stream;
  Stream part;
  part.segment_keys = stream.segment_keys;
  part.max_segment = stream.max_segment;
  part.is_training = stream.is_training;

  std::vector<int64_t> tokens;  // of the whole stream
  part.segment_offsets.push_back(0);
  for (size_t s = 0; s + 1 < stream.segment_offsets.size(); ++s) {
    const int64_t begin = stream.segment_offsets[s];
    const RowPart own = row_part(stream.row_length(s), rank, size);
    append(tokens, begin + own.low_begin, own.low_length);
    append(tokens, begin + own.high_begin, own.high_length);
    part.segment_offsets.push_back(static_cast<int64_t>(tokens.size()));
    part.row_lengths.push_back(stream.row_length(s));
  }

  const at::Device device = stream.ids.device();
  const at::Tensor kept = at::tensor(tokens, at::kLong).to(device);
  part.ids = stream.ids.index_select(0, kept);
  part.targets = stream.targets.index_select(0, kept);
  part.positions = stream.positions.index_select(0, kept);
  part.trained = part.targets.ne(ignore_index).nonzero().squeeze(1);
  part.num_trained = part.trained.size(0);
  part.segments = at::tensor(part.segment_offsets, at::kInt).to(device);
  return part;
}

}  // namespace duoka
