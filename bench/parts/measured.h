// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

namespace duoka::comm {
class Group;
}

namespace duoka::bench {

/// One iteration of a benchmark, in parts. What they work on they own.
struct Step {
  std::function<void()> body;          ///< What is timed.
  std::function<void()> prepare = {};  ///< Before body and before reference, not timed.
  /// What cannot be beaten: as many bytes copied, sent or written. Timed in the same loop, in turn with body.
  std::function<void()> reference = {};
};

/// A benchmark: `body` against its bound, which is either Step::reference, or `flops` at the best rate of a
/// matrix product in `dtype`, measured once a process.
struct Measured {
  std::string name;            ///< "norm/forward/bf16"
  std::function<Step()> make;  ///< What it throws (a file is missing) is shown in place of numbers.
  double flops = 0;
  at::ScalarType dtype = at::kFloat;
  double bytes = 0;    ///< Shown as GB/s.
  double rows = 0;     ///< Shown as rows/s.
  int iterations = 0;  ///< 0: as many as fill half a second. Ranks that talk need the same number.
};

/// Registers it with Google Benchmark. Counters: of_bound (the bound's time over the mean of body's; 1 is as
/// fast as can be), GFLOP/s, GB/s, rows/s.
void add(Measured measured);
/// How many of those that ran had to show an error.
int num_failed();

/// A copy by which `bytes` are moved: half of them read, half written.
std::function<void()> copy_of(double bytes);

/// 0 where there is no such file.
double file_bytes(const std::filesystem::path& path);

/// "f32", "bf16".
std::string dtype_name(at::ScalarType dtype);

// The subjects, one file each.
void add_layers();
void add_elementwise_layers();
void add_data();
void add_files();
/// Collective: every rank of `group` registers and runs the same.
void add_collectives(const comm::Group& group);

}  // namespace duoka::bench
