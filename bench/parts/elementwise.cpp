// SPDX-License-Identifier: Apache-2.0
// Layers whose time is that of moving bytes, against a copy of as many.
#include <ATen/ATen.h>

#include "duoka/core/dropout.h"
#include "duoka/model/embedding.h"
#include "duoka/model/norm.h"
#include "duoka/model/rope.h"
#include "smollm2.h"

namespace duoka::bench {
namespace {

/// Of the activations of all tokens.
double bytes_of(int64_t columns, at::ScalarType dtype) {
  return static_cast<double>(num_tokens * columns) * static_cast<double>(c10::elementSize(dtype));
}

void add_norm(at::ScalarType dtype, bool is_trained) {
  const double one = bytes_of(width, dtype);
  add_layer(
      "norm/" + kind_name(is_trained ? Trained::all : Trained::none), dtype, width, {.bytes = 2 * one},
      {.bytes = 3 * one}, [=] {
        return std::make_unique<model::RmsNorm>(random_source(dtype, is_trained)({"norm", {width}}), 1e-5);
      });
}

void add_rope(at::ScalarType dtype, bool inverse) {
  const int64_t heads = num_heads + num_kv_heads;
  const double bytes = 2 * bytes_of(heads * head_dim, dtype) + bytes_of(head_dim, at::kFloat);
  const auto make = [=] {
    model::RopeConfig config;
    config.head_dim = head_dim;
    const auto angles = model::Rope(config).angles(four_rows(), dtype);
    at::Tensor x = random_rows(heads * head_dim, dtype).view({num_tokens, heads, head_dim});
    return Step{.body = [=]() mutable { model::Rope::rotate_(x, angles, inverse); },
                .reference = copy_of(bytes)};
  };
  add({.name = std::string("rope/") + (inverse ? "backward/" : "forward/") + dtype_name(dtype),
       .make = make,
       .bytes = bytes});
}

/// Backward adds rows of dy into the gradient of a trained table, in f32.
void add_embedding(at::ScalarType dtype) {
  const double one = bytes_of(width, dtype);
  add_layer(
      "embedding/full", dtype, width, {.bytes = 2 * one}, {.bytes = one + 2 * bytes_of(width, at::kFloat)},
      [=] {
        return std::make_unique<model::Embedding>(random_source(dtype, true)({"embedding", {vocab, width}}));
      });
}

void add_dropout(at::ScalarType dtype) {
  const double bytes = 2 * bytes_of(width, dtype);
  add({.name = "dropout/forward/" + dtype_name(dtype),
       .make =
           [=] {
             return Step{.body = [dropout = Dropout(0.05, 1), x = random_rows(width, dtype),
                                  stream = four_rows()] { dropout.apply(x, stream); },
                         .reference = copy_of(bytes)};
           },
       .bytes = bytes});
}

}  // namespace

void add_elementwise_layers() {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    add_norm(dtype, false);
    add_norm(dtype, true);
    add_rope(dtype, false);
    add_rope(dtype, true);
    add_embedding(dtype);
    add_dropout(dtype);
  }
}

}  // namespace duoka::bench
