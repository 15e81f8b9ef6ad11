// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/head.h"

#include <algorithm>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "model/cross_entropy.h"

namespace duoka::model {

namespace {

/// Rows of x that are trained: x itself where that is all of them.
at::Tensor trained_rows(const at::Tensor& x, const Stream& stream) {
  return stream.num_trained == x.size(0) ? x : x.index_select(0, stream.trained);
}

}  // namespace

Head::Head(RmsNorm norm, Parameter weight, int64_t chunk_bytes)
    : norm_(std::move(norm)),
      owned_(std::make_unique<Parameter>(std::move(weight))),
      weight_(owned_.get()),
      chunk_bytes_(chunk_bytes) {}

Head::Head(RmsNorm norm, Parameter* tied_weight, int64_t chunk_bytes)
    : norm_(std::move(norm)), weight_(tied_weight), chunk_bytes_(chunk_bytes) {}

std::vector<Parameter*> Head::parameters() { return {&norm_.weight(), weight_}; }

int64_t Head::rows_per_chunk() const {
  const auto& w = weight_->value;
  return std::max<int64_t>(1, chunk_bytes_ / std::max<int64_t>(1, w.size(0) * w.element_size()));
}

at::Tensor Head::logits(const at::Tensor& x, const at::Tensor& rows) {
  return at::linear(norm_.apply(rows.defined() ? x.index_select(0, rows) : x), weight_->value);
}

double Head::loss_sum(const at::Tensor& x, const Stream& stream) {
  if (stream.num_trained == 0) return 0;
  const at::Tensor normed = norm_.apply(trained_rows(x, stream)),
                   targets = stream.targets.index_select(0, stream.trained);
  at::Tensor sum = at::zeros({}, x.options().dtype(at::kDouble));  // read once: reading waits for a device
  for (int64_t begin = 0; begin < stream.num_trained; begin += rows_per_chunk()) {
    const int64_t count = std::min(rows_per_chunk(), stream.num_trained - begin);
    sum.add_(cross_entropy(at::linear(normed.narrow(0, begin, count), weight_->value),
                           targets.narrow(0, begin, count)));
  }
  return sum.item<double>();
}

Objective::Share Head::loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) {
  if (stream.num_trained == 0) return {0, at::zeros_like(x)};
  Saved saved;
  const at::Tensor normed = norm_.forward(trained_rows(x, stream), stream, saved);
  const at::Tensor targets = stream.targets.index_select(0, stream.trained);
  at::Tensor dnormed = at::empty_like(normed);
  at::Tensor sum = at::zeros({}, x.options().dtype(at::kDouble));  // read once: reading waits for a device
  for (int64_t begin = 0; begin < stream.num_trained; begin += rows_per_chunk()) {
    const int64_t count = std::min(rows_per_chunk(), stream.num_trained - begin);
    const at::Tensor rows = normed.narrow(0, begin, count);
    at::Tensor logits = at::linear(rows, weight_->value);
    sum.add_(cross_entropy_backward_(logits, targets.narrow(0, begin, count), scale));
    at::Tensor drows = dnormed.narrow(0, begin, count);
    at::mm_out(drows, logits, weight_->value);
    if (weight_->is_trainable) weight_->accumulate_product(logits, rows);
  }
  const at::Tensor dtrained = norm_.backward(dnormed, stream, saved);
  if (stream.num_trained == x.size(0)) return {sum.item<double>(), dtrained};
  return {sum.item<double>(), at::zeros_like(x).index_copy_(0, stream.trained, dtrained)};
}

}  // namespace duoka::model
