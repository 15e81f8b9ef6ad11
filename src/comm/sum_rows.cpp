// SPDX-License-Identifier: Apache-2.0
#include "comm/sum_rows.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "core/vector_loop.h"
#include "duoka/core/error.h"

namespace duoka::comm {

namespace {

/// Numbers that are combined at a time: in the first-level cache whatever the number of rows.
constexpr int64_t block = 512;

struct Sum {
  template <class A>
  A operator()(A a, A b) const {
    // Of whole numbers as unsigned: too large a sum wraps around.
    if constexpr (std::is_integral_v<A>) {
      using Unsigned = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};
struct Largest {
  template <class A>
  A operator()(A a, A b) const {
    return a < b ? b : a;
  }
};
struct Smallest {
  template <class A>
  A operator()(A a, A b) const {
    return b < a ? b : a;
  }
};

}  // namespace

/// What numbers of type T are combined in.
template <class T>
using Combined =
    std::conditional_t<std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float, T>;

template <class T, class F>
DUOKA_VECTOR_CLONES void combine(const T* const* rows, int64_t num_rows, T* out, int64_t numel, F f) {
  using A = Combined<T>;
  A values[block];
  for (int64_t begin = 0; begin < numel; begin += block) {
    const int64_t count = numel - begin < block ? numel - begin : block;
    const T* first = rows[0] + begin;
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<A>(first[i]);
    for (int64_t r = 1; r < num_rows; ++r) {
      const T* row = rows[r] + begin;
      for (int64_t i = 0; i < count; ++i) values[i] = f(values[i], static_cast<A>(row[i]));
    }
    for (int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<T>(values[i]);
  }
}

namespace {

template <class T>
void combine_as(std::span<const void* const> rows, void* out, int64_t numel, Op op) {
  const auto* const typed = reinterpret_cast<const T* const*>(rows.data());
  const auto num_rows = static_cast<int64_t>(rows.size());
  auto* const typed_out = static_cast<T*>(out);
  switch (op) {
    case Op::sum:
      return combine(typed, num_rows, typed_out, numel, Sum{});
    case Op::max:
      return combine(typed, num_rows, typed_out, numel, Largest{});
    case Op::min:
      return combine(typed, num_rows, typed_out, numel, Smallest{});
  }
  throw StateError("unknown reduction");
}

}  // namespace

void combine_rows(std::span<const void* const> rows, void* out, int64_t numel, at::ScalarType dtype, Op op) {
  switch (dtype) {
    case at::kFloat:
      return combine_as<float>(rows, out, numel, op);
    case at::kDouble:
      return combine_as<double>(rows, out, numel, op);
    case at::kHalf:
      return combine_as<c10::Half>(rows, out, numel, op);
    case at::kBFloat16:
      return combine_as<c10::BFloat16>(rows, out, numel, op);
    case at::kInt:
      return combine_as<int32_t>(rows, out, numel, op);
    case at::kLong:
      return combine_as<int64_t>(rows, out, numel, op);
    case at::kByte:
      return combine_as<uint8_t>(rows, out, numel, op);
    default:
      throw StateError("combine_rows: unknown dtype");
  }
}

}  // namespace duoka::comm
