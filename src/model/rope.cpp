// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/rope.h"

#include <bit>
#include <string>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>

#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "model/card.h"
#include "model/rope_frequencies.h"
#include "model/row_loop.h"
#include "model/rows.h"

namespace duoka::model {

namespace {

constexpr int64_t max_table_length = int64_t{1} << 26;  // more is a broken position, not a sequence

}  // namespace

Rope::Rope(const RopeConfig& config) : config_(config), attention_factor_(rope_attention_factor(config)) {
  check_rope(config);
}

std::vector<double> Rope::inverse_frequencies(int64_t length) const {
  return rope_frequencies(config_, length);
}

Rope::Table Rope::table(int64_t length, at::ScalarType dtype, at::Device device) const {
  if (length > max_table_length)
    throw StateError("a sequence of " + std::to_string(length) + " positions; wanted at most " +
                     std::to_string(max_table_length));
  const bool by_length = config_.kind == RopeConfig::Kind::dynamic && length > config_.max_positions;
  constexpr size_t most_tables = 64;  // as many lengths as a packed stream has, of a few MB each
  const std::scoped_lock lock(mutex_);
  if (tables_.size() > most_tables) tables_.clear();
  Table& found = tables_[Key(by_length ? length : 0, dtype, device.type(), device.index())];
  if (found.length < length) {
    const MemoryScope scope(MemoryClass::other);  // whoever asks first: it stays
    found.length = by_length ? length : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
    const auto frequencies = at::tensor(rope_frequencies(config_, length), at::kDouble);
    const auto angles = at::outer(at::arange(found.length, at::kDouble), frequencies);
    found.cos = angles.cos().mul_(attention_factor_).to(device, dtype);
    found.sin = angles.sin().mul_(attention_factor_).to(device, dtype);
  }
  return found;
}

Rope::Angles Rope::angles(const Stream& stream, at::ScalarType dtype) const {
  const auto wide = accumulate_dtype(dtype);
  const at::Device device = stream.positions.device();
  const auto rows = [&](int64_t length, const at::Tensor& positions) {
    const Table all = table(length, wide, device);
    return Angles{all.cos.index_select(0, positions), all.sin.index_select(0, positions)};
  };
  if (config_.kind != RopeConfig::Kind::dynamic || stream.max_segment <= config_.max_positions)
    return rows(stream.max_segment, stream.positions);
  // Frequencies follow the length of each sequence, and a stream holds sequences of several lengths.
  std::vector<at::Tensor> cos, sin;
  for (size_t s = 0; s + 1 < stream.segment_offsets.size(); ++s) {
    const int64_t begin = stream.segment_offsets[s], length = stream.segment_offsets[s + 1] - begin;
    const Angles own = rows(stream.row_length(s), stream.positions.narrow(0, begin, length));
    cos.push_back(own.cos);
    sin.push_back(own.sin);
  }
  return {at::cat(cos), at::cat(sin)};
}

Rope::Angles Rope::angles(int64_t first, int64_t count, at::ScalarType dtype, at::Device device) const {
  const Table all = table(first + count, accumulate_dtype(dtype), device);
  return {all.cos.narrow(0, first, count), all.sin.narrow(0, first, count)};
}

void Rope::rotate_(at::Tensor& x, const Angles& angles, bool inverse) {
  const int64_t num_heads = x.size(1), head_dim = x.size(2), half = angles.cos.size(1);
  if (!x.is_cpu()) return card::rotate_(x, angles, inverse);
  with_type_of(x, [&]<class T>() {
    using A = Accumulate<T>;
    T* const xs = x.mutable_data_ptr<T>();
    const A* const cos = angles.cos.const_data_ptr<A>();
    const A* const sin = angles.sin.const_data_ptr<A>();
    for_rows(x.size(0), num_heads * head_dim, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        rows::rotate(xs + i * num_heads * head_dim, cos + i * half, sin + i * half, num_heads, head_dim, half,
                     inverse);
    });
  });
}

}  // namespace duoka::model
