// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

// Products of matrices, by the fastest kernel libtorch has for where they are. For f32 on a CPU at::mm and
// its kin take MKL, which keeps to AVX2 on processors that are not Intel's; oneDNN does not, and is twice as
// fast there.

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
