// SPDX-License-Identifier: Apache-2.0
#include "core/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

// libtorch exports this function, yet ships no header that declares it.
namespace at::native {
void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& c, float beta, float alpha);
}

namespace duoka {

namespace {

/// What libtorch asks of the processor before it gives oneDNN a product, of f32 too; else it throws.
bool has_avx512() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has = __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                          __builtin_cpu_supports("avx512dq") != 0;
  return has;
#else
  return false;
#endif
}

bool is_for_onednn(const at::Tensor& a) {
  return a.is_cpu() && a.scalar_type() == at::kFloat && has_avx512() && at::hasMKLDNN();
}

}  // namespace

void multiply_into(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, double beta, double alpha) {
  at::Tensor out = c;  // the same memory; ATen wants it to be no constant
  if (is_for_onednn(a) && a.numel() > 0 && b.numel() > 0)
    at::native::mkldnn_matmul(a, b, out, static_cast<float>(beta), static_cast<float>(alpha));
  else if (beta == 0 && alpha == 1)
    at::mm_out(out, a, b);
  else
    out.addmm_(a, b, beta, alpha);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (!is_for_onednn(a)) return a.mm(b);
  at::Tensor c = at::empty({a.size(0), b.size(1)}, a.options());
  multiply_into(c, a, b);
  return c;
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& bias) {
  if (!is_for_onednn(x)) return at::linear(x, w, bias);
  at::Tensor y = at::empty({x.size(0), w.size(0)}, x.options());
  if (bias) y.copy_(*bias);
  multiply_into(y, x, w.t(), bias ? 1 : 0);
  return y;
}

}  // namespace duoka
