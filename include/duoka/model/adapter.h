// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/parameter.h"
#include "duoka/core/saved.h"
#include "duoka/core/stream.h"

namespace duoka::model {

/// What a Linear [O, I] may carry beside its weight: a second term added to its output, with a backward of
/// its own. N tokens, x [N, I], y [N, O], all of one dtype. The kinds live in tune/.
class Adapter {
 public:
  virtual ~Adapter() = default;

  /// What trains, in a fixed order. Pointers stay valid as long as the adapter lives.
  virtual std::vector<Parameter*> parameters() = 0;
  /// Whether backward() reads x; its Linear keeps x only when someone needs it.
  virtual bool needs_input() const = 0;

  /// y += f(x). Pushes onto `saved` what backward() needs besides x.
  virtual void forward(const at::Tensor& x, at::Tensor& y, const Stream& stream, Saved& saved) = 0;
  /// dx += the gradient by x, given dy; adds into its parameters' gradients. Pops what forward() pushed.
  /// x: the forward's input, undefined when needs_input() is false.
  virtual void backward(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dx, const Stream& stream,
                        Saved& saved) = 0;

  /// What it adds to the weight held here, as a dense matrix: [O, I], f32 (double for double parameters). For
  /// merging.
  virtual at::Tensor delta() const = 0;
};

}  // namespace duoka::model
