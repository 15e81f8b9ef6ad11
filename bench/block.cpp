// SPDX-License-Identifier: Apache-2.0
// Time of one SmolLM2-135M block, forward and backward, by part. Usage:
// bench_block [threads] [repeats]
#include "duoka/model/block.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <time.h>

#include "duoka/tune/lora.h"

namespace {

using namespace duoka;

constexpr int64_t num_tokens = 2048, width = 576;

model::BlockConfig smollm2() {
  model::BlockConfig config;
  config.attention.hidden_size = config.mlp.hidden_size = width;
  config.attention.num_heads = 9;
  config.attention.num_kv_heads = 3;
  config.attention.head_dim = 64;
  config.mlp.intermediate_size = 1536;
  return config;
}

Stream four_segments() {
  const std::vector<int32_t> ids(num_tokens / 4, 1);
  std::vector<RowView> rows;
  for (uint64_t r = 0; r < 4; ++r) rows.push_back({ids, ids, r});
  return make_stream(rows);
}

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}
double wall_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Least wall and CPU time of a call.
template <class Body>
void report(const char* what, int repeats, const Body& body) {
  body();
  double best_wall = 1e30, best_cpu = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double wall = wall_ms(), cpu = cpu_ms();
    body();
    best_wall = std::min(best_wall, wall_ms() - wall);
    best_cpu = std::min(best_cpu, cpu_ms() - cpu);
  }
  std::printf("  %-42s %9.2f ms wall %9.2f ms CPU\n", what, best_wall, best_cpu);
}

void forward_backward(Layer& layer, const at::Tensor& x, const Stream& stream) {
  Saved saved;
  const auto y = layer.forward(x, stream, saved);
  layer.backward(y, stream, saved);
}

void measure(at::ScalarType dtype, int repeats) {
  const Stream stream = four_segments();
  const auto x = at::randn({num_tokens, width}).to(dtype);
  model::RopeConfig rope;
  rope.head_dim = 64;
  rope.theta = 1e5;
  const auto shared = std::make_shared<const model::Rope>(rope);
  for (const char* kind : {"frozen", "LoRA r8 all linear", "LoRA r8 dropout 0.05", "full"}) {
    const bool is_full = std::string_view(kind) == "full", is_frozen = std::string_view(kind) == "frozen";
    model::Block block(
        [&](const model::ParameterRequest& request) {
          return Parameter::whole(request.name, (at::randn(request.shape) * 0.02).to(dtype), is_full);
        },
        "model.layers.0", smollm2(), shared);
    tune::LoraConfig lora;
    if (std::string_view(kind).ends_with("0.05")) lora.dropout = 0.05;
    if (!is_full && !is_frozen)
      for (auto* linear : block.linears())
        linear->attach(std::make_unique<tune::LoraAdapter>(*linear, lora, 1));
    report((std::string(kind) + ", forward").c_str(), repeats, [&] {
      Saved nothing(false);
      block.forward(x, stream, nothing);
    });
    report((std::string(kind) + ", forward + backward").c_str(), repeats,
           [&] { forward_backward(block, x, stream); });
  }
  const auto source = [&](const model::ParameterRequest& request) {
    return Parameter::whole(request.name, (at::randn(request.shape) * 0.02).to(dtype), false);
  };
  model::Attention attention(source, "a", smollm2().attention, shared);
  model::Mlp mlp(source, "m", smollm2().mlp);
  model::RmsNorm norm(source({"n", {width}}), 1e-5);
  report("attention alone, forward + backward", repeats, [&] { forward_backward(attention, x, stream); });
  report("MLP alone, forward + backward", repeats, [&] { forward_backward(mlp, x, stream); });
  report("norm alone, forward + backward", repeats, [&] { forward_backward(norm, x, stream); });
  const Dropout dropout(0.05, 1);
  report("dropout of [N, D]", repeats, [&] { dropout.apply(x, stream); });
  const auto w = at::randn({1536, width}).to(dtype);
  report("one product [N, 576] x [576, 1536]", repeats, [&] { at::linear(x, w); });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 2);
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 5;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    std::printf("%s, %d threads, N = 2048 in 4 segments\n", c10::toString(dtype), at::get_num_threads());
    measure(dtype, repeats);
  }
}
