// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace duoka {

/// c = alpha a b, or += . a [M, K] and b [K, N], each with unit stride along rows or columns, c [M, N] with
/// rows of stride 1; all f32, bf16 or f16, on a CPU for which has_packed_product(). Computed in f32, whatever
/// the dtype, and rounded once. Numbers do not depend on the number of threads. Throws what memory throws.
///
/// Takes panels of b and blocks of a in turn, as f32, that fit into a core's caches (Goto, van de Geijn,
/// "Anatomy of high-performance matrix multiplication", 2008), and has oneDNN's kernel multiply them. Where
/// the processor has no instructions for a dtype, libtorch's own products take many times as long.
void packed_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool adds, double alpha);

/// Whether the processor has what the kernel needs (AVX2).
bool has_packed_product();

}  // namespace duoka
