// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/dropout.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "core/card_dropout.h"
#include "core/dropout_rows.h"
#include "duoka/core/error.h"
#include "duoka/core/philox.h"
#include "duoka/core/text.h"

namespace duoka {

uint64_t random_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ULL ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  hash += 0x9E3779B97F4A7C15ULL;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBULL;
  return hash ^ (hash >> 31);
}

namespace {

constexpr int64_t low_bits = 0xFFFFFFFF;

/// Units whose word is below this are dropped.
uint32_t threshold(double p) {
  return static_cast<uint32_t>(std::min(std::llround(std::ldexp(p, 32)), static_cast<long long>(low_bits)));
}

template <class T>
void drop_rows(const Dropout& dropout, const at::Tensor& x, at::Tensor& y, const Stream& stream) {
  const int64_t num_columns = x.size(1);
  const double p = dropout.probability();
  const T* const from = x.const_data_ptr<T>();
  T* const to = y.mutable_data_ptr<T>();
  const int64_t* const positions = stream.positions.const_data_ptr<int64_t>();
  const auto& offsets = stream.segment_offsets;
  constexpr int64_t grain_elements = 16384;
  at::parallel_for(
      0, x.size(0), std::max<int64_t>(1, grain_elements / num_columns), [&](int64_t begin, int64_t end) {
        auto segment = std::upper_bound(offsets.begin(), offsets.end(), begin) - offsets.begin() - 1;
        for (int64_t i = begin; i < end; ++i) {
          while (i >= offsets[static_cast<size_t>(segment + 1)]) ++segment;
          const DropoutToken token{dropout.site_key(), stream.segment_keys[static_cast<size_t>(segment)],
                                   static_cast<uint32_t>(positions[i])};
          drop_row(from + i * num_columns, to + i * num_columns, dropout.first_column(), num_columns, token,
                   threshold(p), 1 / (1 - p));
        }
      });
}

void check(const at::Tensor& x, const Stream& stream) {
  if (x.dim() == 2 && x.size(0) == stream.num_tokens() && x.is_contiguous() &&
      static_cast<int64_t>(stream.segment_keys.size()) == stream.num_segments())
    return;
  throw StateError("dropout on a tensor of " + std::to_string(x.numel()) + " elements and " +
                   std::to_string(x.dim()) + " dims for a stream of " + std::to_string(stream.num_tokens()) +
                   " tokens in " + std::to_string(stream.num_segments()) + " segments with " +
                   std::to_string(stream.segment_keys.size()) +
                   " keys; wanted [N, D], contiguous, a key a segment");
}

/// y = x * mask / (1 - p); y may be x.
void drop(const Dropout& dropout, const at::Tensor& x, at::Tensor& y, const Stream& stream) {
  check(x, stream);
  if (!x.is_cpu()) return drop_on_card(dropout, x, y, stream, threshold(dropout.probability()));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "dropout",
                                  [&] { drop_rows<scalar_t>(dropout, x, y, stream); });
}

/// Keys of the rows, one a token: [N, 1], the low or the high 32 bits.
at::Tensor row_key_halves(const Stream& stream, int shift) {
  std::vector<int64_t> halves;
  for (const uint64_t key : stream.segment_keys)
    halves.push_back(static_cast<int64_t>(key >> shift) & low_bits);
  const auto lengths = at::tensor(stream.segment_offsets, at::kLong).diff();
  return at::tensor(halves, at::kLong).repeat_interleave(lengths).to(stream.positions.device()).unsqueeze(1);
}

}  // namespace

Dropout::Dropout(double p, uint64_t site_key, int64_t first_column)
    : p_(p), site_key_(site_key), first_column_(first_column) {
  if (!(p >= 0 && p < 1)) throw ConfigError(text("dropout = ", p, "; wanted 0 or more and below 1"));
}

at::Tensor Dropout::apply(const at::Tensor& x, const Stream& stream) const {
  if (!is_active(stream)) return x;
  at::Tensor y = at::empty_like(x);
  drop(*this, x, y, stream);
  return y;
}

void Dropout::apply_(at::Tensor& x, const Stream& stream) const {
  if (is_active(stream)) drop(*this, x, x, stream);
}

at::Tensor Dropout::kept(const Stream& stream, int64_t num_columns) const {
  const int64_t first_group = first_column_ / dropout_group,
                end_group = (first_column_ + num_columns + dropout_group - 1) / dropout_group,
                num_lanes = (end_group - first_group) * dropout_lanes;
  const auto lanes =  // [1, L]
      at::arange(first_group * dropout_lanes, end_group * dropout_lanes, stream.positions.options())
          .unsqueeze(0);
  const auto zero = at::zeros({stream.num_tokens(), num_lanes}, stream.positions.options());
  at::Tensor words[4] = {row_key_halves(stream, 0) + zero, row_key_halves(stream, 32) + zero,
                         (stream.positions.unsqueeze(1) & low_bits) + zero, lanes + zero};
  auto key_0 = static_cast<uint32_t>(site_key_), key_1 = static_cast<uint32_t>(site_key_ >> 32);
  for (int round = 0; round < Philox::num_rounds; ++round) {
    // The 64 bits of a product are right even where they mean a negative number; >> brings copies of the
    // sign, which the mask takes away.
    const auto product_0 = words[0] * static_cast<int64_t>(Philox::multiplier_0);
    const auto product_1 = words[2] * static_cast<int64_t>(Philox::multiplier_1);
    words[0] = product_1.bitwise_right_shift(32).bitwise_and_(low_bits).bitwise_xor_(words[1]).bitwise_xor_(
        static_cast<int64_t>(key_0));
    words[1] = product_1 & low_bits;
    words[2] = product_0.bitwise_right_shift(32).bitwise_and_(low_bits).bitwise_xor_(words[3]).bitwise_xor_(
        static_cast<int64_t>(key_1));
    words[3] = product_0 & low_bits;
    key_0 += Philox::weyl_0;
    key_1 += Philox::weyl_1;
  }
  const auto grouped = [&](const at::Tensor& w) {
    return w.view({-1, num_lanes / dropout_lanes, dropout_lanes});
  };
  return at::stack({grouped(words[0]), grouped(words[1]), grouped(words[2]), grouped(words[3])}, 2)
      .view({stream.num_tokens(), -1})
      .narrow(1, first_column_ - first_group * dropout_group, num_columns)
      .ge(static_cast<int64_t>(threshold(p_)));
}

}  // namespace duoka
