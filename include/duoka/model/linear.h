// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/model/adapter.h"
#include "duoka/model/parameter_source.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::model {

/// How the ranks of a tensor axis share a matrix W [O, I].
enum class Split {
  none,
  outputs,  ///< Rows of W and of the bias: each rank makes its part of y, from all of x.
  inputs,   ///< Columns of W: each rank makes a term of y from its part of x; the sum over the ranks is y.
};

/// y = x W^T (+ b) (+ adapter). x [N, I], W [O, I], b [O], y [N, O]; one dtype for all.
/// Movable until someone holds pointers to its parameters.
///
/// Split over a tensor axis it computes with the slice held here and talks to nobody: whoever uses it sums y
/// (inputs) or dx (outputs) over the ranks. What is whole on each rank has a partial gradient, to be summed
/// over them: an adapter's half, or the bias of `inputs`, which the first rank alone adds.
class Linear final : public Layer {
 public:
  explicit Linear(Parameter weight, std::optional<Parameter> bias = {});
  /// Takes "<module>.weight" [num_out, num_in], and "<module>.bias" [num_out] if `has_bias`, from `source`;
  /// the sizes are the whole's. Of what is split, this rank's part on `axis`.
  Linear(const ParameterSource& source, const std::string& module, int64_t num_out, int64_t num_in,
         bool has_bias = false, Split split = Split::none, const TensorAxis& axis = *solo_tensor_axis());

  /// Weight, bias, then the adapter's.
  std::vector<Parameter*> parameters() override;
  /// Keeps x (the handle, no copy) only if needs_input().
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override;

  /// The function alone, for evaluation: no dropout, nothing kept.
  at::Tensor apply(const at::Tensor& x);

  /// forward() that leaves keeping x to the caller, who hands it to backward_into() again: for an input
  /// that is cheaper to compute twice than to keep, or that two layers share.
  at::Tensor project(const at::Tensor& x, const Stream& stream, Saved& saved);
  /// backward() of project(): dx += dy W (+ adapter), or dx = where `dx` is undefined. Adds into the
  /// trainable parameters' gradients. x may be undefined when needs_input() is false.
  void backward_into(const at::Tensor& dy, const at::Tensor& x, const Stream& stream, Saved& saved,
                     at::Tensor& dx);
  /// Whether backward reads x: the weight is trainable, or the adapter says so. Must not change between a
  /// forward and its backward.
  bool needs_input() const;

  /// Adds an adapter. Throws StateError when there is one already.
  void attach(std::unique_ptr<Adapter> adapter);
  /// Takes it away again (after a merge); null when there was none.
  std::unique_ptr<Adapter> detach();
  Adapter* adapter() const { return adapter_.get(); }

  /// Name of the module: the weight's name without ".weight".
  std::string module() const;
  Parameter& weight() { return weight_; }
  const Parameter& weight() const { return weight_; }
  Parameter* bias() { return bias_ ? &*bias_ : nullptr; }
  /// The whole's.
  int64_t num_in() const { return weight_.global_shape[1]; }
  int64_t num_out() const { return weight_.global_shape[0]; }
  /// Those that the slice held here reads and makes.
  Part inputs() const { return {weight_.offset[1], weight_.value.size(1)}; }
  Part outputs() const { return {weight_.offset[0], weight_.value.size(0)}; }

 private:
  /// The bias, on the rank that adds it.
  Parameter* added_bias() { return bias_ && inputs().begin == 0 ? &*bias_ : nullptr; }

  Parameter weight_;
  std::optional<Parameter> bias_;
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace duoka::model
