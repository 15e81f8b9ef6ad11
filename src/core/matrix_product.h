// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

// Products of matrices, by the fastest kernel there is for where they are, what they are of and what the
// processor can. On a CPU: f32 with AVX-512 by oneDNN, which at::mm and its kin leave for MKL, and that keeps
// to AVX2 on processors that are not Intel's; half precision with AVX-512 by libtorch; all that without
// AVX-512 by packed_product(), which does a fifth more than MKL in f32, while libtorch's kernels for half
// precision do a tenth of it.

namespace duoka {

/// c = beta c + alpha a b. a [M, K], b [K, N] of any strides, c [M, N] with rows of stride 1; all of one
/// floating dtype and device. With beta = 0 what c held does not matter.
void multiply_into(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, double beta = 0,
                   double alpha = 1);

/// a b, fresh: [M, K] x [K, N] -> [M, N].
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

/// x w^T + bias: x [N, I], w [O, I], bias [O] or none -> [N, O].
at::Tensor affine(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& bias = {});

}  // namespace duoka
