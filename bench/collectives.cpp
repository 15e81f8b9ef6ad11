// SPDX-License-Identifier: Apache-2.0
// What each collective reaches, in GB/s of tensor bytes per rank.
//
//   bench_collectives --cards 2
#include <chrono>
#include <cstdio>
#include <functional>

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "duoka/core/host_allocator.h"

namespace {

using duoka::comm::Op;

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(const duoka::comm::Session& session) {
  const auto& group = session.group();
  const int64_t n = group.size();
  for (const int64_t mib : {1, 4, 16, 64}) {
    const int64_t numel = mib * (1 << 20) / 4 / n * n;
    at::Tensor whole = at::ones({n, numel / n}, at::kFloat), part = at::ones({numel / n}, at::kFloat);
    at::Tensor other = at::ones({n, numel / n}, at::kFloat);
    const auto time = [&](const char* name, const std::function<void()>& body) {
      body();
      const int runs = static_cast<int>(256 / mib);
      double s = 0;
      for (int i = 0; i < runs; ++i) {
        duoka::comm::barrier(group);
        s += seconds(body);
      }
      if (session.is_first())
        std::printf("%3ld MiB %-15s %7.2f ms %6.2f GB/s\n", mib, name, s / runs * 1e3,
                    double(numel) * 4 * runs / s / 1e9);
    };
    time("copy", [&] { other.copy_(whole); });
    time("add", [&] { other.add_(whole); });
    time("all_reduce", [&] { duoka::comm::all_reduce(whole, Op::sum, group); });
    time("reduce_scatter", [&] { duoka::comm::reduce_scatter_into(part, whole, group); });
    time("all_gather", [&] { duoka::comm::all_gather_into(whole, part, group); });
    time("all_to_all", [&] { duoka::comm::all_to_all_into(other, whole, group); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  duoka::host_allocator::install();
  return duoka::comm::run_main(argc, argv, measure);
}
