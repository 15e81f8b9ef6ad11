// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

// For sources whose loops the compiler is to vectorise (built with -O3, see duoka_vector_sources). The
// function it stands before is compiled once for each level of the instruction set, and the loader takes the
// best one that the machine has. Sanitizers run before the loader's choice is possible, so they get the plain
// version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DUOKA_VECTOR_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define DUOKA_VECTOR_CLONES
#endif

namespace duoka {

/// What a loop over T computes in: double for double, f32 for all others.
template <class T>
using Accumulate = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Sum of term(i) for i in [0, n), in 16 interleaved partial sums: the order is fixed, whatever the width of
/// the machine's vectors, and the compiler need not be allowed to reorder.
template <class A, class Term>
[[gnu::always_inline]] inline A sum_of(int64_t n, Term term) {
  constexpr int64_t lanes = 16;
  A partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  for (; i < n; ++i) partial[i % lanes] += term(i);
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  return partial[0];
}

}  // namespace duoka
