// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/head.h"

#include <algorithm>
#include <span>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "core/matrix_product.h"
#include "model/cross_entropy.h"

namespace duoka::model {

namespace {

/// Some rows of x: x itself where that is all of them.
at::Tensor rows_of(const at::Tensor& x, const at::Tensor& rows) {
  return rows.size(0) == x.size(0) ? x : x.index_select(0, rows);
}

}  // namespace

Head::Head(RmsNorm norm, Parameter weight, int64_t chunk_bytes, std::shared_ptr<const TensorAxis> axis)
    : norm_(std::move(norm)),
      owned_(std::make_unique<Parameter>(std::move(weight))),
      weight_(owned_.get()),
      chunk_bytes_(chunk_bytes),
      axis_(std::move(axis)) {}

Head::Head(RmsNorm norm, Parameter* tied_weight, int64_t chunk_bytes, std::shared_ptr<const TensorAxis> axis)
    : norm_(std::move(norm)), weight_(tied_weight), chunk_bytes_(chunk_bytes), axis_(std::move(axis)) {}

std::vector<Parameter*> Head::parameters() { return {&norm_.weight(), weight_}; }

// By the first rank's part of the vocabulary: all ranks must make equally many chunks.
int64_t Head::rows_per_chunk() const {
  const int64_t num_columns = part_of(weight_->global_shape[0], 0, axis_->size()).count;
  return std::max<int64_t>(1,
                           chunk_bytes_ / std::max<int64_t>(1, num_columns * weight_->value.element_size()));
}

Head::Trained Head::trained(const Stream& stream) const {
  if (axis_->is_solo()) return {stream.trained, {stream.num_trained}};
  const at::Tensor places = stream.trained.cpu();  // waits for the device; the loss does anyway
  const std::span all(places.const_data_ptr<int64_t>(), static_cast<size_t>(places.numel()));
  Trained trained;
  int64_t first = 0;  // of this rank, among the trained
  for (int r = 0; r < axis_->size(); ++r) {
    const Part tokens = part_of(stream.num_tokens(), r, axis_->size());
    const auto begin = std::ranges::lower_bound(all, tokens.begin),
               end = std::ranges::lower_bound(all, tokens.begin + tokens.count);
    if (r == axis_->rank()) first = begin - all.begin();
    trained.counts.push_back(end - begin);
  }
  trained.rows = stream.trained.narrow(0, first, trained.counts[static_cast<size_t>(axis_->rank())]) -
                 axis_->part(stream.num_tokens()).begin;
  return trained;
}

LogitsPart Head::columns() const { return {*axis_, weight_->offset[0], weight_->global_shape[0]}; }

at::Tensor Head::logits(const at::Tensor& x, const at::Tensor& rows) {
  require_solo(*axis_, "a look at logits");
  return affine(norm_.apply(rows.defined() ? x.index_select(0, rows) : x), weight_->value);
}

double Head::loss_sum(const at::Tensor& x, const Stream& stream) {
  if (stream.num_trained == 0) return 0;
  const auto [own, counts] = trained(stream);
  const at::Tensor normed = axis_->gather_rows(norm_.apply(rows_of(x, own)), counts),
                   targets = stream.targets.index_select(0, stream.trained);
  at::Tensor sum = at::zeros({}, x.options().dtype(at::kDouble));  // read once: reading waits for a device
  for (int64_t begin = 0; begin < stream.num_trained; begin += rows_per_chunk()) {
    const int64_t count = std::min(rows_per_chunk(), stream.num_trained - begin);
    sum.add_(cross_entropy(affine(normed.narrow(0, begin, count), weight_->value),
                           targets.narrow(0, begin, count), columns()));
  }
  return axis_->rank() == 0 ? sum.item<double>() : 0;
}

Objective::Share Head::loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) {
  if (stream.num_trained == 0) return {0, at::zeros_like(x)};
  Saved saved;
  const auto [own, counts] = trained(stream);
  const at::Tensor normed = axis_->gather_rows(norm_.forward(rows_of(x, own), stream, saved), counts);
  const at::Tensor targets = stream.targets.index_select(0, stream.trained);
  at::Tensor dnormed = at::empty_like(normed);
  at::Tensor sum = at::zeros({}, x.options().dtype(at::kDouble));  // read once: reading waits for a device
  for (int64_t begin = 0; begin < stream.num_trained; begin += rows_per_chunk()) {
    const int64_t count = std::min(rows_per_chunk(), stream.num_trained - begin);
    const at::Tensor rows = normed.narrow(0, begin, count);
    at::Tensor logits = affine(rows, weight_->value);
    sum.add_(cross_entropy_backward_(logits, targets.narrow(0, begin, count), scale, columns()));
    const at::Tensor drows = dnormed.narrow(0, begin, count);
    multiply_into(drows, logits, weight_->value);
    if (weight_->is_trainable) weight_->accumulate_product(logits, rows);
  }
  const at::Tensor dtrained = norm_.backward(axis_->scatter_sum_rows(dnormed, counts), stream, saved);
  const double loss = axis_->rank() == 0 ? sum.item<double>() : 0;
  if (own.size(0) == x.size(0)) return {loss, dtrained};
  return {loss, at::zeros_like(x).index_copy_(0, own, dtrained)};
}

}  // namespace duoka::model
