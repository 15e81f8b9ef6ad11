// SPDX-License-Identifier: Apache-2.0
#include "core/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include "core/packed_product.h"

// libtorch exports this function, yet ships no header that declares it.
namespace at::native {
void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& c, float beta, float alpha);
}

namespace duoka {

namespace {

enum class Way { libtorch, onednn, packed };

/// What libtorch asks of the processor before it gives oneDNN a product, of f32 too; else it throws.
bool has_avx512() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has = __builtin_cpu_supports("avx512vl") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  return has;
#else
  return false;
#endif
}

bool has_unit_stride(const at::Tensor& x) { return x.stride(0) == 1 || x.stride(1) == 1; }

Way way_of(const at::Tensor& a, const at::Tensor& b) {
  constexpr int64_t fewest = 4;  // rows or columns; below that a product is no more than reading a matrix
  const auto dtype = a.scalar_type();
  if (!a.is_cpu() || dtype == at::kDouble || a.numel() == 0 || b.numel() == 0) return Way::libtorch;
  if (has_avx512()) return dtype == at::kFloat && at::hasMKLDNN() ? Way::onednn : Way::libtorch;
  const bool is_small = a.size(0) < fewest || b.size(1) < fewest;
  const bool can_pack = has_packed_product() && has_unit_stride(a) && has_unit_stride(b);
  return can_pack && !is_small ? Way::packed : Way::libtorch;
}

}  // namespace

void multiply_into(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, double beta, double alpha) {
  at::Tensor out = c;  // the same memory; ATen wants it to be no constant
  switch (way_of(a, b)) {
    case Way::onednn:
      return at::native::mkldnn_matmul(a, b, out, static_cast<float>(beta), static_cast<float>(alpha));
    case Way::packed:
      if (beta != 0 && beta != 1) out.mul_(beta);
      return packed_product(c, a, b, beta != 0, alpha);
    case Way::libtorch:
      if (beta == 0 && alpha == 1)
        at::mm_out(out, a, b);
      else
        out.addmm_(a, b, beta, alpha);
  }
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (way_of(a, b) == Way::libtorch) return a.mm(b);
  at::Tensor c = at::empty({a.size(0), b.size(1)}, a.options());
  multiply_into(c, a, b);
  return c;
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& bias) {
  if (way_of(x, w.t()) == Way::libtorch) return at::linear(x, w, bias);
  at::Tensor y = at::empty({x.size(0), w.size(0)}, x.options());
  if (bias) y.copy_(*bias);
  multiply_into(y, x, w.t(), bias ? 1 : 0);
  return y;
}

}  // namespace duoka
