// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace duoka {

/// What one forward of a layer leaves for its backward: a stack of tensors. backward() pops in the
/// reverse order of forward()'s pushes. Pushing a tensor twice costs no memory (it is shared).
class Saved {
 public:
  /// `is_recording` false: push() drops its argument; for evaluation and for the first pass of a
  /// recomputed layer.
  explicit Saved(bool is_recording = true) : is_recording_(is_recording) {}

  bool is_recording() const { return is_recording_; }
  void push(at::Tensor tensor) {
    if (is_recording_) tensors_.push_back(std::move(tensor));
  }
  /// The tensor pushed last. Throws StateError when there is none: forward and backward disagree.
  at::Tensor pop();
  bool is_empty() const { return tensors_.empty(); }
  /// Bytes held, a storage that several tensors share counted once.
  int64_t num_bytes() const;

 private:
  bool is_recording_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace duoka
