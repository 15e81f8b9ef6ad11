// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <ATen/ops/rand.h>

#include "duoka/core/layer.h"
#include "duoka/model/parameter_source.h"
#include "measured.h"

// The layers of SmolLM2-135M and what goes through them.

namespace duoka::bench {

constexpr int64_t num_rows = 4, row_tokens = 200, num_tokens = num_rows * row_tokens;
constexpr int64_t width = 576, num_heads = 9, num_kv_heads = 3, head_dim = 64, intermediate = 1536,
                  vocab = 49152;

/// Which weights are trained.
enum class Trained { none, lora, all };
constexpr Trained all_kinds[] = {Trained::none, Trained::lora, Trained::all};

inline std::string kind_name(Trained trained) {
  return trained == Trained::none ? "frozen" : trained == Trained::lora ? "lora" : "full";
}

/// Four rows, all tokens trained.
inline Stream four_rows() {
  const std::vector<int32_t> ids(row_tokens, 7);
  return make_stream(std::vector<RowView>(num_rows, RowView{ids, ids, 1}));
}

inline model::ParameterSource random_source(at::ScalarType dtype, bool is_trainable) {
  return [=](const model::ParameterRequest& request) {
    return Parameter::whole(request.name, ((at::rand(request.shape) - 0.5) * 0.1).to(dtype), is_trainable);
  };
}

inline at::Tensor random_rows(int64_t columns, at::ScalarType dtype) {
  return (at::rand({num_tokens, columns}) - 0.5).to(dtype);
}

/// What each direction of a layer costs: the products that must be done, or the bytes that must be moved.
struct Cost {
  double flops = 0, bytes = 0;
};

/// Two benchmarks: "<name>/forward/<dtype>" and "<name>/backward/<dtype>". `make`: a fresh layer of x [800,
/// columns].
void add_layer(const std::string& name, at::ScalarType dtype, int64_t columns, Cost forward, Cost backward,
               const std::function<std::unique_ptr<Layer>()>& make);

}  // namespace duoka::bench
