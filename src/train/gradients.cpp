// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/gradients.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::train {

namespace {

/// Numbers summed by one thread at a time. Fixed, so that the sum does not depend on the number of threads.
constexpr int64_t block_size = 1 << 16;

template <class Number>
double square_sum_of_block(const Number* values, int64_t count) {
  // Several sums at once, so that the compiler can keep them in one vector register.
  constexpr int64_t lanes = 8;
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      sums[lane] += value * value;
    }
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <class Number>
double square_sum_on_cpu(const at::Tensor& grad) {
  const auto* values = grad.const_data_ptr<Number>();
  const int64_t numel = grad.numel();
  std::vector<double> blocks(static_cast<size_t>((numel + block_size - 1) / block_size));
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      blocks[static_cast<size_t>(block)] =
          square_sum_of_block(values + block * block_size, std::min(block_size, numel - block * block_size));
  });
  double total = 0;
  for (const double block : blocks) total += block;
  return total;
}

double square_sum_on_cpu(const at::Tensor& grad) {
  if (grad.scalar_type() == at::kDouble) return square_sum_on_cpu<double>(grad);
  return square_sum_on_cpu<float>(grad.to(at::kFloat));
}

/// Of all of them with one wait for the device.
double square_sum_on_device(const std::vector<at::Tensor>& grads) {
  return at::stack(at::_foreach_norm(grads)).to(at::kDouble).square().sum().item<double>();
}

double primary_square_sum(std::span<const Slot> slots) {
  double total = 0;
  std::vector<at::Tensor> elsewhere;
  for (const Slot& slot : slots) {
    if (!slot.is_primary) continue;
    if (slot.grad.is_cpu())
      total += square_sum_on_cpu(slot.grad.contiguous());
    else
      elsewhere.push_back(slot.grad);
  }
  return elsewhere.empty() ? total : total + square_sum_on_device(elsewhere);
}

}  // namespace

LossAndNorm sum_loss_and_norm(double loss_share, std::span<const Slot> slots, const comm::Group& group) {
  const at::NoGradGuard no_grad;
  at::Tensor sums = at::tensor({loss_share, primary_square_sum(slots)}, at::kDouble);
  comm::all_reduce(sums, comm::Op::sum, group);
  return {sums[0].item<double>(), std::sqrt(sums[1].item<double>())};
}

double clip_gradients(std::span<Slot> slots, double norm, double max_norm) {
  const at::NoGradGuard no_grad;
  if (!std::isfinite(norm) || max_norm == 0) return 1;
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return 1;
  std::vector<at::Tensor> grads;
  for (Slot& slot : slots) grads.push_back(slot.grad);
  at::_foreach_mul_(grads, factor);
  return factor;
}

void require_finite(const LossAndNorm& update, int64_t step) {
  if (std::isfinite(update.loss) && std::isfinite(update.norm)) return;
  throw ConfigError(
      text("step ", step, ": loss ", update.loss, ", gradient norm ", update.norm,
           "; wanted finite numbers. The weights are as after step ", step - 1,
           ". Try a lower learning_rate, more warmup_steps, max_grad_norm 1.0, or bf16 off; if it "
           "happens at step 1, the model or the data is damaged"));
}

}  // namespace duoka::train
