// SPDX-License-Identifier: Apache-2.0
// Layers whose time is that of products of matrices, against the best rate of one.
#include <ATen/ATen.h>

#include "duoka/model/attention.h"
#include "duoka/model/block.h"
#include "duoka/model/head.h"
#include "duoka/model/linear.h"
#include "duoka/model/mlp.h"
#include "duoka/tune/lora.h"
#include "smollm2.h"

namespace duoka::bench {
namespace {

constexpr int64_t lora_rank = 8;

double product_flops(int64_t num_in, int64_t num_out) {
  return 2.0 * static_cast<double>(num_tokens * num_in * num_out);
}

/// Of y = x W^T: backward needs dx, and dW where the weight is trained. An adapter's two thin products are
/// another W of `lora_rank (num_in + num_out)` numbers, which is trained.
Cost forward_of(int64_t num_in, int64_t num_out, Trained trained) {
  const double thin = trained == Trained::lora ? product_flops(lora_rank, num_in + num_out) : 0;
  return {.flops = product_flops(num_in, num_out) + thin};
}
Cost backward_of(int64_t num_in, int64_t num_out, Trained trained) {
  const double whole = product_flops(num_in, num_out);
  const double thin = trained == Trained::lora ? 2 * product_flops(lora_rank, num_in + num_out) : 0;
  return {.flops = whole + (trained == Trained::all ? whole : 0) + thin};
}
void add_to(Cost& sum, Cost term) { sum.flops += term.flops; }

void adapt(const std::vector<model::Linear*>& linears, Trained trained) {
  if (trained != Trained::lora) return;
  for (model::Linear* linear : linears)
    linear->attach(std::make_unique<tune::LoraAdapter>(*linear, tune::LoraConfig{.rank = lora_rank}, 1));
}

void add_linear(at::ScalarType dtype, Trained trained, int64_t num_in, int64_t num_out) {
  add_layer("linear " + std::to_string(num_in) + "x" + std::to_string(num_out) + "/" + kind_name(trained),
            dtype, num_in, forward_of(num_in, num_out, trained), backward_of(num_in, num_out, trained), [=] {
              auto linear = std::make_unique<model::Linear>(random_source(dtype, trained == Trained::all),
                                                            "linear", num_out, num_in);
              adapt({linear.get()}, trained);
              return linear;
            });
}

std::shared_ptr<const model::Rope> rope() {
  model::RopeConfig config;
  config.head_dim = head_dim;
  config.theta = 1e5;
  return std::make_shared<const model::Rope>(config);
}

model::AttentionConfig attention_config() {
  return {.hidden_size = width, .num_heads = num_heads, .num_kv_heads = num_kv_heads, .head_dim = head_dim};
}
model::MlpConfig mlp_config() { return {.hidden_size = width, .intermediate_size = intermediate}; }

/// The two products with scores, of the half below the diagonal that is needed.
double scores_flops() {
  return 2 * 2.0 * static_cast<double>(num_rows * num_heads * head_dim * row_tokens * (row_tokens + 1)) / 2;
}

struct Costs {
  Cost forward, backward;
};

Costs attention_costs(Trained trained) {
  Costs costs{{.flops = scores_flops()}, {.flops = 2 * scores_flops()}};
  for (const int64_t num_out : {width, num_kv_heads * head_dim, num_kv_heads * head_dim, width}) {
    add_to(costs.forward, forward_of(width, num_out, trained));
    add_to(costs.backward, backward_of(width, num_out, trained));
  }
  return costs;
}

Costs mlp_costs(Trained trained) {
  Costs costs;
  for (int i = 0; i < 3; ++i) {
    add_to(costs.forward, forward_of(width, intermediate, trained));
    add_to(costs.backward, backward_of(width, intermediate, trained));
  }
  return costs;
}

void add_attention(at::ScalarType dtype, Trained trained) {
  const Costs costs = attention_costs(trained);
  add_layer("attention/" + kind_name(trained), dtype, width, costs.forward, costs.backward, [=] {
    auto layer = std::make_unique<model::Attention>(random_source(dtype, trained == Trained::all),
                                                    "attention", attention_config(), rope());
    adapt(layer->linears(), trained);
    return layer;
  });
}

void add_mlp(at::ScalarType dtype, Trained trained) {
  const Costs costs = mlp_costs(trained);
  add_layer("mlp/" + kind_name(trained), dtype, width, costs.forward, costs.backward, [=] {
    auto layer =
        std::make_unique<model::Mlp>(random_source(dtype, trained == Trained::all), "mlp", mlp_config());
    adapt(layer->linears(), trained);
    return layer;
  });
}

void add_block(at::ScalarType dtype, Trained trained) {
  const Costs attention = attention_costs(trained), mlp = mlp_costs(trained);
  add_layer("block/" + kind_name(trained), dtype, width,
            {.flops = attention.forward.flops + mlp.forward.flops},
            {.flops = attention.backward.flops + mlp.backward.flops}, [=] {
              auto layer = std::make_unique<model::Block>(
                  random_source(dtype, trained == Trained::all), "block",
                  model::BlockConfig{.attention = attention_config(), .mlp = mlp_config()}, rope());
              adapt(layer->linears(), trained);
              return layer;
            });
}

model::Head make_head(at::ScalarType dtype, bool is_trained) {
  const auto source = random_source(dtype, is_trained);
  return model::Head(model::RmsNorm(source({"norm", {width}}), 1e-5), source({"head", {vocab, width}}));
}

/// Norm, product with the vocabulary and cross entropy: the loss alone, and with its gradients.
void add_head(at::ScalarType dtype, bool is_trained) {
  const double product = product_flops(width, vocab);
  const auto make = [=](bool with_gradient) {
    const auto head = std::make_shared<model::Head>(make_head(dtype, is_trained));
    const auto stream = four_rows();
    const at::Tensor x = random_rows(width, dtype);
    return Step{.body = [=] {
      with_gradient ? head->loss_and_gradient(x, stream, 1).loss_sum : head->loss_sum(x, stream);
    }};
  };
  const std::string kind = kind_name(is_trained ? Trained::all : Trained::none);
  if (!is_trained)
    add({.name = "head/loss/" + dtype_name(dtype),
         .make = [=] { return make(false); },
         .flops = product,
         .dtype = dtype});
  add({.name = "head/" + kind + "/loss and gradient/" + dtype_name(dtype),
       .make = [=] { return make(true); },
       .flops = product * (is_trained ? 3 : 2),
       .dtype = dtype});
}

}  // namespace

void add_layer(const std::string& name, at::ScalarType dtype, int64_t columns, Cost forward, Cost backward,
               const std::function<std::unique_ptr<Layer>()>& make) {
  struct State {
    std::unique_ptr<Layer> layer;
    Stream stream = four_rows();
    at::Tensor x, dy;
    Saved saved;
  };
  const auto fresh = [=] {
    const auto state = std::make_shared<State>();
    state->layer = make();
    state->x = random_rows(columns, dtype);
    return state;
  };
  const auto reference = [](const Cost& cost) {
    return cost.flops > 0 ? std::function<void()>() : copy_of(cost.bytes);
  };
  const auto way = [&](const char* direction, const Cost& cost, const std::function<Step()>& make_step) {
    add({.name = name + "/" + direction + "/" + dtype_name(dtype),
         .make = make_step,
         .flops = cost.flops,
         .dtype = dtype,
         .bytes = cost.bytes});
  };
  way("forward", forward, [=] {
    const auto s = fresh();
    return Step{.body = [s] { s->dy = s->layer->forward(s->x, s->stream, s->saved); },
                .prepare = [s] { s->saved = Saved(); },
                .reference = reference(forward)};
  });
  way("backward", backward, [=] {
    const auto s = fresh();
    return Step{.body = [s] { s->layer->backward(s->dy, s->stream, s->saved); },
                .prepare =
                    [s] {
                      s->saved = Saved();
                      s->dy = s->layer->forward(s->x, s->stream, s->saved);
                    },
                .reference = reference(backward)};
  });
}

void add_layers() {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const Trained trained : all_kinds) {
      add_linear(dtype, trained, width, intermediate);
      add_linear(dtype, trained, intermediate, width);
      add_attention(dtype, trained);
      add_mlp(dtype, trained);
      add_block(dtype, trained);
    }
    add_head(dtype, false);
    add_head(dtype, true);
  }
}

}  // namespace duoka::bench
