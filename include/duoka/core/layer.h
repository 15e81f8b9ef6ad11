// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/parameter.h"
#include "duoka/core/saved.h"
#include "duoka/core/stream.h"

namespace duoka {

/// A link of the chain that is a model, with an explicit backward.
///
/// Shapes: N tokens of the stream, D width. An engine calls forward() along the chain and backward()
/// against it; `saved` carries what one forward leaves for its backward, and nothing else does, so a layer
/// may run forward for many streams before the first backward.
class Layer {
 public:
  virtual ~Layer() = default;

  /// What this layer uses, trainable or not, in a fixed order. The same parameter may be used by two
  /// layers (a tied head). Pointers stay valid as long as the layer lives.
  virtual std::vector<Parameter*> parameters() = 0;

  /// x [N, D] (ignored by an embedding) -> [N, D]. Pushes onto `saved` what backward() needs.
  virtual at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) = 0;

  /// dy [N, D], gradient of the loss by forward()'s result -> gradient by its `x`; undefined from an
  /// embedding. Adds into the grad of trainable parameters. Pops all that the matching forward() pushed.
  virtual at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) = 0;
};

/// The end of the chain: turns the last activations into a loss and its gradient.
class Objective {
 public:
  struct Share {
    double loss_sum = 0;  ///< Sum of the loss over the stream's trained tokens, unscaled.
    at::Tensor dx;        ///< [N, D], gradient of scale * loss_sum by x.
  };
  virtual ~Objective() = default;
  virtual std::vector<Parameter*> parameters() = 0;
  /// Sum of the loss over the stream's trained tokens. No gradient, nothing kept.
  virtual double loss_sum(const at::Tensor& x, const Stream& stream) = 0;
  /// Loss and gradient together; adds the gradient of scale * loss_sum into trainable parameters.
  virtual Share loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) = 0;
};

/// A model as an engine walks it.
struct Chain {
  std::vector<std::unique_ptr<Layer>> layers;
  std::unique_ptr<Objective> objective;

  /// All parameters in chain order, each once.
  std::vector<Parameter*> parameters() const;
};

}  // namespace duoka
