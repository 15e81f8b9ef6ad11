// SPDX-License-Identifier: Apache-2.0
#include "measured.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <tuple>

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include "core/matrix_product.h"

namespace duoka::bench {
namespace {

constexpr double slice_seconds = 0.2;
constexpr int num_slices = 3;
int failed = 0;

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The least mean time of a call in a slice.
double best_seconds(const std::function<void()>& body) {
  body();
  double best = 1e30;
  for (int slice = 0; slice < num_slices; ++slice) {
    double total = 0;
    int calls = 0;
    for (; total < slice_seconds; ++calls) total += seconds_of(body);
    best = std::min(best, total / calls);
  }
  return best;
}

/// FLOP/s: the best of some shapes, by libtorch's own choice of a library and by ours.
double best_product_rate(at::ScalarType dtype) {
  double best = 0;
  for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{2048, 2048, 2048},
                                {1024, 576, 1536},
                                {1024, 1536, 576},
                                {800, 576, 1536}}) {
    const auto a = at::randn({m, k}).to(dtype), w = at::randn({n, k}).to(dtype);
    const double seconds =
        std::min(best_seconds([&] { at::linear(a, w); }), best_seconds([&] { affine(a, w); }));
    best = std::max(best, 2.0 * static_cast<double>(m * k * n) / seconds);
  }
  return best;
}

double product_rate(at::ScalarType dtype) {
  static std::map<at::ScalarType, double> rates;
  const auto [entry, is_new] = rates.try_emplace(dtype, 0);
  if (is_new) entry->second = best_product_rate(dtype);
  return entry->second;
}

/// Seconds of all iterations so far.
struct Times {
  double body = 0, reference = 0;
};

double iterate(const Step& step, Times& times) {
  const auto prepare = [&] {
    if (step.prepare) step.prepare();
  };
  prepare();
  const double seconds = seconds_of(step.body);
  times.body += seconds;
  if (!step.reference) return seconds;
  prepare();
  times.reference += seconds_of(step.reference);
  return seconds;
}

void run(benchmark::State& state, const Measured& measured) try {
  const Step step = measured.make();
  Times times;
  iterate(step, times);  // takes memory, makes kernels
  times = {};
  for ([[maybe_unused]] auto _ : state) state.SetIterationTime(iterate(step, times));
  const double mean = times.body / static_cast<double>(state.iterations());
  if (measured.flops > 0) state.counters["GFLOP/s"] = measured.flops / mean / 1e9;
  if (measured.bytes > 0) state.counters["GB/s"] = measured.bytes / mean / 1e9;
  if (measured.rows > 0) state.counters["rows/s"] = measured.rows / mean;
  if (step.reference) {
    state.counters["of_bound"] = times.reference / times.body;
  } else if (measured.flops > 0) {
    state.counters["of_bound"] = measured.flops / product_rate(measured.dtype) / mean;
  }
} catch (const std::exception& error) {
  ++failed;
  state.SkipWithError(error.what());
}

}  // namespace

void add(Measured measured) {
  const std::string name = measured.name;
  const int iterations = measured.iterations;
  auto* registered = benchmark::RegisterBenchmark(
      name.c_str(), [measured = std::move(measured)](benchmark::State& state) { run(state, measured); });
  registered->UseManualTime()->Unit(benchmark::kMillisecond);
  if (iterations > 0) registered->Iterations(iterations);
}

int num_failed() { return failed; }

std::function<void()> copy_of(double bytes) {
  const auto numel = static_cast<int64_t>(bytes / 2 / sizeof(float));
  return [from = at::ones(numel), to = at::zeros(numel)] { to.copy_(from); };
}

double file_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<double>(size);
}

std::string dtype_name(at::ScalarType dtype) { return dtype == at::kBFloat16 ? "bf16" : "f32"; }

}  // namespace duoka::bench
