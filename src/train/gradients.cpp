// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/gradients.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::train {

namespace {

template <class Number>
double square_sum(const Number* values, int64_t count) {
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

/// A row is what a layout never divides: an entry of dim 0.
template <class Number>
void add_rows_on_cpu(const at::Tensor& grad, ExactSum& sum) {
  if (grad.numel() == 0) return;
  const auto* values = grad.const_data_ptr<Number>();
  const int64_t num_rows = grad.dim() == 0 ? 1 : grad.size(0), width = grad.numel() / num_rows;
  constexpr int64_t grain_elements = 16384;
  std::vector<double> rows(static_cast<size_t>(num_rows));
  at::parallel_for(0, num_rows, std::max<int64_t>(1, grain_elements / width),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row)
                       rows[static_cast<size_t>(row)] = square_sum(values + row * width, width);
                   });
  for (const double row : rows) sum.add(row);
}

void add_on_cpu(const at::Tensor& grad, ExactSum& sum) {
  if (grad.scalar_type() == at::kDouble)
    add_rows_on_cpu<double>(grad, sum);
  else
    add_rows_on_cpu<float>(grad.to(at::kFloat), sum);
}

/// Of all of them with one wait for the device.
double square_sum_on_device(const std::vector<at::Tensor>& grads) {
  return at::stack(at::_foreach_norm(grads)).to(at::kDouble).square().sum().item<double>();
}

ExactSum primary_square_sum(std::span<const Slot> slots) {
  ExactSum total;
  std::vector<at::Tensor> elsewhere;
  for (const Slot& slot : slots) {
    if (!slot.is_primary) continue;
    if (slot.grad.is_cpu())
      add_on_cpu(slot.grad.contiguous(), total);
    else
      elsewhere.push_back(slot.grad);
  }
  if (!elsewhere.empty()) total.add(square_sum_on_device(elsewhere));
  return total;
}

}  // namespace

LossAndNorm sum_loss_and_norm(ExactSum loss_sum, int64_t trained_tokens, std::span<const Slot> slots,
                              const comm::Group& group) {
  const at::NoGradGuard no_grad;
  ExactSum sums[2] = {loss_sum, primary_square_sum(slots)};
  at::Tensor digits = at::empty({2, ExactSum::num_digits}, at::kLong);
  for (int64_t i = 0; i < 2; ++i) std::ranges::copy(sums[i].digits(), digits[i].mutable_data_ptr<int64_t>());
  comm::all_reduce(digits, comm::Op::sum, group);
  for (int64_t i = 0; i < 2; ++i)
    std::copy_n(digits[i].const_data_ptr<int64_t>(), ExactSum::num_digits, sums[i].digits().begin());
  return {sums[0].value() / static_cast<double>(trained_tokens), std::sqrt(sums[1].value())};
}

double clip_gradients(std::span<Slot> slots, double norm, double max_norm) {
  const at::NoGradGuard no_grad;
  if (!std::isfinite(norm) || max_norm == 0) return 1;
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return 1;
  if (slots.empty()) return factor;  // a stage of a pipeline that is frozen
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
