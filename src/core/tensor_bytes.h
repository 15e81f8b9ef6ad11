// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

// The memory of a tensor apart from its shape and dtype, for one that is elsewhere at times.

namespace duoka {

/// All of the storage of `tensor` as [n] u8; shares it, and keeps it alive.
at::Tensor bytes_of(const at::Tensor& tensor);

/// Takes the memory out of the storage of `tensor` and returns it as [n] u8. Shape, dtype and device of
/// `tensor` stay, and those of others that share the storage; reading numbers of any of them throws until
/// give_bytes().
at::Tensor take_bytes(const at::Tensor& tensor);

/// Puts `bytes`, as large as what take_bytes() gave, into the storage of `tensor`. `bytes` must be the only
/// tensor of its own storage, and is of no use afterwards.
void give_bytes(const at::Tensor& tensor, at::Tensor bytes);

/// False between take_bytes() and give_bytes().
bool has_bytes(const at::Tensor& tensor);

}  // namespace duoka
