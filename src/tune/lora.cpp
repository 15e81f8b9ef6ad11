// SPDX-License-Identifier: Apache-2.0
#include "duoka/tune/lora.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "core/matrix_product.h"
#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/core/philox.h"

namespace duoka::tune {

namespace {

/// Uniform numbers in [-bound, bound), [num_rows, columns.count] f32, a function of `key` and place alone.
at::Tensor keyed_uniform(int64_t num_rows, const model::Part& columns, double bound, uint64_t key) {
  at::Tensor values = at::empty({num_rows, columns.count}, at::kFloat);
  auto* to = values.mutable_data_ptr<float>();
  const int64_t end = columns.begin + columns.count;
  for (int64_t row = 0; row < num_rows; ++row)
    for (int64_t begin = columns.begin / 4 * 4; begin < end; begin += 4) {
      const auto words =
          Philox::words({static_cast<uint32_t>(row), static_cast<uint32_t>(begin / 4), 0, 0}, key);
      for (int64_t i = std::max(begin, columns.begin); i < std::min(begin + 4, end); ++i) {
        const double unit = std::ldexp(static_cast<double>(words[static_cast<size_t>(i - begin)] >> 8), -24);
        *to++ = static_cast<float>(bound * (2 * unit - 1));
      }
    }
  return values;
}

void check(const model::Linear& linear, const LoraConfig& config) {
  const int64_t most = std::max(linear.num_in(), linear.num_out());
  if (config.rank < 1 || config.rank > most)
    throw ConfigError("lora_rank = " + std::to_string(config.rank) + " for " + linear.module() + " [" +
                      std::to_string(linear.num_out()) + ", " + std::to_string(linear.num_in()) +
                      "]; wanted 1 to " + std::to_string(most));
}

double scale_of(const LoraConfig& config) {
  const auto rank = static_cast<double>(config.rank);
  return config.alpha / (config.use_rslora ? std::sqrt(rank) : rank);
}

std::string name_of(const model::Linear& linear, const char* kind) {
  return "base_model.model." + linear.module() + "." + kind + ".weight";
}

/// A [r, I] and B [O, r], or the slices that go with the linear's; trainable, on the device and in the dtype
/// of the weight.
Parameter make_a(const model::Linear& linear, const LoraConfig& config, uint64_t seed) {
  const MemoryScope scope(MemoryClass::parameters);
  const int64_t num_in = linear.num_in();
  const model::Part columns = linear.inputs();
  const bool has_numbers = !linear.weight().value.is_meta();  // else only shapes are wanted
  const at::Tensor a = has_numbers
                           ? keyed_uniform(config.rank, columns, 1 / std::sqrt(static_cast<double>(num_in)),
                                           random_key(seed, linear.module() + ".lora_A"))
                           : at::empty({config.rank, columns.count}, linear.weight().value.options());
  const model::ParameterRequest request{
      name_of(linear, "lora_A"), {config.rank, num_in}, model::Slice{1, columns.begin, columns.count}};
  return request.parameter(a.to(linear.weight().value.options()), true);
}

Parameter make_b(const model::Linear& linear, const LoraConfig& config) {
  const MemoryScope scope(MemoryClass::parameters);
  const model::Part rows = linear.outputs();
  const model::ParameterRequest request{
      name_of(linear, "lora_B"), {linear.num_out(), config.rank}, model::Slice{0, rows.begin, rows.count}};
  return request.parameter(at::zeros({rows.count, config.rank}, linear.weight().value.options()), true);
}

}  // namespace

LoraAdapter::LoraAdapter(const model::Linear& linear, const LoraConfig& config, uint64_t seed)
    : scale_((check(linear, config), scale_of(config))),
      a_(make_a(linear, config, seed)),
      b_(make_b(linear, config)),
      dropout_(config.dropout, random_key(seed, linear.module() + ".lora_dropout"), linear.inputs().begin) {}

void LoraAdapter::forward(const at::Tensor& x, at::Tensor& y, const Stream& stream, Saved& saved) {
  const at::Tensor low = affine(dropout_.apply(x, stream), a_.value);
  multiply_into(y, low, b_.value.t(), 1, scale_);
  saved.push(low);
}

// With h = D x A^T (D: dropout):  dB = s dy^T h,  dh = s dy B,  dA = dh^T D x,  dx = D (dh A).
void LoraAdapter::backward(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dx, const Stream& stream,
                           Saved& saved) {
  const at::Tensor low = saved.pop();
  const at::Tensor dlow = product(dy, b_.value).mul_(scale_);
  if (b_.is_trainable) b_.accumulate_product(dy, low.mul(scale_));
  if (a_.is_trainable) a_.accumulate_product(dlow, dropout_.apply(x, stream));
  if (!dropout_.is_active(stream)) {
    multiply_into(dx, dlow, a_.value, 1);
    return;
  }
  at::Tensor dropped = product(dlow, a_.value);
  dropout_.apply_(dropped, stream);
  dx.add_(dropped);
}

at::Tensor LoraAdapter::delta() const {
  const auto dtype = a_.value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return product(b_.value.to(dtype), a_.value.to(dtype)).mul_(scale_);
}

}  // namespace duoka::tune
