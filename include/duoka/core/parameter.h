// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace duoka {

/// One named tensor of a model: what is held here of it, and its gradient.
///
/// Checkpoints, optimizer, gradient norm and exports are written against this type alone. None of them
/// knows which kind of parallelism made the slice. Not thread-safe; owned by a layer, never moved once
/// the layer is built (others keep pointers to it).
struct Parameter {
  std::string name;                   ///< Hugging Face's name, e.g. "model.layers.0.mlp.up_proj.weight".
  std::vector<int64_t> global_shape;  ///< Shape of the whole tensor, on whatever number of cards.
  std::vector<int64_t> offset;        ///< Where `value` begins in the whole tensor, one entry a dim.
  bool is_trainable = false;
  bool has_weight_decay = true;  ///< False for norms and biases.
  at::Tensor value;              ///< The slice held here, in the dtype the layers compute in.
  /// Gradient of the update's loss, same shape as `value`. Undefined until the first contribution, or a
  /// view an engine put there, or a sparse tensor, which takes up accumulate_rows() as rows. Dtype
  /// gradient_dtype(); zeroed by whoever owns the update.
  at::Tensor grad;

  /// A whole (unsliced) parameter.
  static Parameter whole(std::string name, at::Tensor value, bool is_trainable);

  /// f32 for half-precision values, else the dtype of the value.
  at::ScalarType gradient_dtype() const;
  int64_t numel() const { return value.numel(); }
  /// True when `value` is all of it.
  bool is_whole() const;

  /// Gives the memory of `value` back; its shape, dtype and device stay, its numbers may not be read until
  /// restore(). For an engine that gathers it a layer ahead. `value` must be all of its storage; a tensor that
  /// shares the storage (a module's own) sees both changes.
  void release();
  /// Takes memory for `value` again, uninitialised, and returns another tensor over it to fill: writing through
  /// that one does not count as a change of `value`, so that autograd's saved tensors stay good. Must be
  /// released.
  at::Tensor restore();
  bool is_released() const;

  /// grad += g. `g` has the shape of `value`, any floating dtype.
  /// Throws StateError when the parameter is not trainable.
  void accumulate(const at::Tensor& g);
  /// grad += a^T b for a weight [O, I]: a [N, O], b [N, I]. Adds in place where dtypes allow.
  void accumulate_product(const at::Tensor& a, const at::Tensor& b);
  /// grad[ids[i]] += rows[i] for a table [V, D]: ids [n] i64, may repeat; rows [n, D], any floating dtype.
  void accumulate_rows(const at::Tensor& ids, const at::Tensor& rows);
};

}  // namespace duoka
