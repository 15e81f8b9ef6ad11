// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "duoka/core/layer.h"
#include "duoka/core/philox.h"
#include "duoka/model/parameter_source.h"

namespace duoka::model::test {

/// Numbers of about unit size, the same for the same name.
inline at::Tensor random_tensor(const std::string& name, at::IntArrayRef shape,
                                at::ScalarType dtype = at::kDouble) {
  auto generator = at::detail::createCPUGenerator(random_key(7, name));
  return at::randn(shape, generator, at::kDouble).to(dtype);
}

/// Parameters with small random numbers; trainable where `is_trainable` says so of the name.
inline ParameterSource random_source(
    at::ScalarType dtype = at::kDouble,
    std::function<bool(const std::string&)> is_trainable = [](auto&) { return true; }) {
  return [=](const ParameterRequest& request) {
    const auto& [name, shape, slice] = request;
    const double size = shape.size() == 2 ? 1 / std::sqrt(static_cast<double>(shape[1])) : 1;
    return request.parameter(cut((random_tensor(name, shape) * size).to(dtype), slice), is_trainable(name));
  };
}

/// A stream of rows with these lengths; row r has key 1000 + r. `num_prompt` leading tokens of a row are not
/// trained (a row shorter than that has no trained token).
inline Stream stream_of(const std::vector<int64_t>& lengths, int64_t vocab_size = 16, int64_t num_prompt = 0,
                        uint64_t first_key = 1000) {
  std::vector<std::vector<int32_t>> ids, labels;
  for (size_t r = 0; r < lengths.size(); ++r) {
    auto& row = ids.emplace_back();
    for (int64_t i = 0; i < lengths[r]; ++i)
      row.push_back(static_cast<int32_t>(Philox::words({static_cast<uint32_t>(i)}, first_key + r)[0] %
                                         static_cast<uint32_t>(vocab_size)));
    labels.push_back(row);
    std::fill_n(labels.back().begin(), std::min(num_prompt, lengths[r]), static_cast<int32_t>(ignore_index));
  }
  std::vector<RowView> rows;
  for (size_t r = 0; r < lengths.size(); ++r) rows.push_back({ids[r], labels[r], first_key + r});
  return make_stream(rows);
}

/// max |a - b| / max |b|
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes()) return INFINITY;
  const auto wide_a = a.to(at::kDouble), wide_b = b.to(at::kDouble);
  const double size = wide_b.abs().max().item<double>(), error = (wide_a - wide_b).abs().max().item<double>();
  return error == 0 ? 0 : error / size;
}

using Leaves = std::map<std::string, at::Tensor>;

/// Copies of the parameters, by name, that autograd follows.
inline Leaves leaves_of(const std::vector<Parameter*>& parameters) {
  Leaves leaves;
  for (const Parameter* p : parameters) leaves[p->name] = p->value.clone().set_requires_grad(true);
  return leaves;
}

/// Each parameter's gradient is `scale` times autograd's, or none where it is frozen.
inline void expect_gradients(const std::vector<Parameter*>& parameters, const Leaves& leaves,
                             const at::Tensor& y, const at::Tensor& dy, double tolerance) {
  for (const Parameter* p : parameters) {
    if (!p->is_trainable) {
      EXPECT_FALSE(p->grad.defined()) << p->name << " is frozen";
      continue;
    }
    const auto wanted = torch::autograd::grad({y}, {leaves.at(p->name)}, {dy}, true)[0];
    EXPECT_LT(relative_error(p->grad, wanted), tolerance) << p->name;
  }
}

/// Runs `layer` forward and backward beside `reference` (the same function by plain operators, from leaves)
/// and expects the same output, input gradient and parameter gradients.
inline void expect_matches_autograd(
    Layer& layer, const at::Tensor& x, const Stream& stream,
    const std::function<at::Tensor(const at::Tensor&, const Leaves&)>& reference, double tolerance = 1e-11) {
  const auto parameters = layer.parameters();
  const Leaves leaves = leaves_of(parameters);
  const auto leaf = x.clone().set_requires_grad(true);
  const auto wanted = reference(leaf, leaves);
  const auto dy = random_tensor("dy", wanted.sizes(), wanted.scalar_type());

  Saved saved;
  const auto input = x.clone(), dy_input = dy.clone();
  const auto y = layer.forward(input, stream, saved);
  const auto dx = layer.backward(dy_input, stream, saved);

  EXPECT_TRUE(saved.is_empty()) << "backward must take all that forward left";
  EXPECT_TRUE(at::equal(input, x)) << "the input belongs to the caller";
  EXPECT_TRUE(at::equal(dy_input, dy)) << "so does the gradient";
  EXPECT_LT(relative_error(y, wanted.detach()), tolerance);
  EXPECT_LT(relative_error(dx, torch::autograd::grad({wanted}, {leaf}, {dy}, true)[0]), tolerance);
  expect_gradients(parameters, leaves, wanted, dy, tolerance);
}

}  // namespace duoka::model::test
