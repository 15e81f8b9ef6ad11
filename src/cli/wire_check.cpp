// SPDX-License-Identifier: Apache-2.0
#include "cli/wire_check.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/local.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t small_numel = 2;                  // 8 bytes of f32
constexpr int64_t large_numel = int64_t{16} << 20;  // 64 MiB

/// Median seconds of one all-reduce, each checked: ranks bring 1 and 2, so all must see 3.
double measure(const comm::Group& group, int64_t numel, int repeats, const at::Device& device) {
  at::Tensor x = at::empty({numel}, at::TensorOptions().dtype(at::kFloat).device(device));
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    x.fill_(group.rank() + 1);
    comm::barrier(group);
    const auto start = Clock::now();
    comm::all_reduce(x, comm::Op::sum, group);
    const double last = x[numel - 1].item<double>();  // on a card: waits for it
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    if (last != 3 || x[0].item<double>() != 3) throw CommError(text("an all-reduce of 1 and 2 gave ", last));
  }
  std::ranges::nth_element(seconds, seconds.begin() + repeats / 2);
  return seconds[static_cast<size_t>(repeats / 2)];
}

WireCheck run_rank(comm::LocalMeeting& meeting, int rank, bool with_nccl) {
  WireCheck out;
  try {
    const at::Device device =
        with_nccl ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(rank)) : at::Device(at::kCPU);
    const c10::OptionalDeviceGuard guard(device);
    comm::ConnectOptions options;
    options.timeout = std::chrono::seconds(30);
    options.cuda_device = with_nccl ? rank : -1;
    const comm::Group group = meeting.join(rank, options);
    measure(group, small_numel, 3, device);  // the first ones open connections
    out.small_seconds = measure(group, small_numel, 51, device);
    out.large_seconds = measure(group, large_numel, 5, device);
  } catch (const std::exception& error) {
    out.trouble = error.what();
  }
  return out;
}

}  // namespace

double WireCheck::megabytes_a_second() const {
  return large_seconds > 0 ? static_cast<double>(large_numel) * 4 / 1e6 / large_seconds : 0;
}

WireCheck check_wires(bool with_nccl) {
  comm::LocalMeeting meeting(wire_check_ranks);
  auto other = std::async(std::launch::async, [&] { return run_rank(meeting, 1, with_nccl); });
  WireCheck mine = run_rank(meeting, 0, with_nccl);
  const WireCheck theirs = other.get();
  if (mine.trouble.empty()) mine.trouble = theirs.trouble;
  return mine;
}

}  // namespace duoka::cli
