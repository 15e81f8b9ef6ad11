// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "duoka/core/layer.h"
#include "duoka/core/stream.h"
#include "duoka/io/json.h"
#include "support/test_files.h"

namespace duoka::testing {

/// A recorded file of tests/fixtures/golden.
inline io::Json golden(const std::string& name) { return io::read_json_file(fixture("golden") / name); }

/// A row with Hugging Face's labels, from {"ids": [...], "labels": [...]}; without labels nothing is trained.
struct Row {
  std::vector<int32_t> ids, labels;

  explicit Row(const io::Json& json) : ids(json.at("ids").get<std::vector<int32_t>>()) {
    if (json.contains("labels"))
      labels = json.at("labels").get<std::vector<int32_t>>();
    else
      labels.assign(ids.size(), static_cast<int32_t>(ignore_index));
  }
  explicit Row(std::vector<int32_t> some) : ids(std::move(some)), labels(ids.size(), int32_t{ignore_index}) {}

  RowView view() const { return {ids, labels}; }
};

/// Rows laid end to end, without dropout.
inline Stream stream_of(const std::vector<Row>& rows) {
  std::vector<RowView> views;
  for (const auto& row : rows) views.push_back(row.view());
  Stream stream = make_stream(views);
  stream.is_training = false;
  return stream;
}

/// Mean loss of a stream, and the gradients of the mean added into the trainable parameters: the walk of an
/// engine in its plainest form.
inline double forward_backward(Chain& chain, const Stream& stream, int64_t num_trained) {
  std::vector<Saved> saved(chain.layers.size());
  at::Tensor x;
  for (size_t i = 0; i < chain.layers.size(); ++i) x = chain.layers[i]->forward(x, stream, saved[i]);
  const double scale = 1.0 / static_cast<double>(num_trained);
  auto share = chain.objective->loss_and_gradient(x, stream, scale);
  at::Tensor dy = share.dx;
  for (size_t i = chain.layers.size(); i-- > 0;) dy = chain.layers[i]->backward(dy, stream, saved[i]);
  return share.loss_sum * scale;
}

}  // namespace duoka::testing
