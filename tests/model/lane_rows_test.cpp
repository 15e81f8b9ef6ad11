// SPDX-License-Identifier: Apache-2.0
// What kernels do with one row, run by lanes of the host: against autograd in f64, and against the loops of
// the CPU in every dtype.
#include "core/lanes.h"
#include "model/lane_gated.h"
#include "model/lane_loss.h"
#include "model/lane_norm.h"
#include "model/lane_rope.h"
#include "model/reference_layers.h"
#include "model/row_loop.h"
#include "model/rows.h"

namespace duoka::model {
namespace {

using namespace test;

constexpr auto every_dtype = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

/// Of results that are rounded once from an arithmetic in f32 (f64).
double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 2e-6 : dtype == at::kHalf ? 2e-3 : 1e-2;
}

/// Calls body.operator()<width, T>() with the full width, where it divides `num_columns`, and with 1.
template <class Body>
void each_width(const at::Tensor& x, int64_t num_columns, const Body& body) {
  with_type_of(x, [&]<class T>() {
    body.template operator()<1, T>();
    if (num_columns % full_width<T> == 0) body.template operator()<full_width<T>, T>();
  });
}

at::Tensor like_arithmetic(const at::Tensor& x) { return x.to(accumulate_dtype(x.scalar_type())); }

struct Norm {
  at::Tensor y, dx, dw;
};

template <class Lanes>
Norm norm_by(const Lanes& block, const at::Tensor& x, const at::Tensor& w, const at::Tensor& dy,
             bool is_wide) {
  const int64_t n = x.size(0), d = x.size(1);
  Norm result{at::empty_like(x), at::empty_like(x), at::empty_like(w)};
  const at::Tensor rstds = at::empty({n}, w.options());
  each_width(x, d, [&]<int width, class T>() {
    if ((width > 1) != is_wide) return;
    using A = Accumulate<T>;
    const T *const xs = x.const_data_ptr<T>(), *const dys = dy.const_data_ptr<T>();
    const A* const ws = w.const_data_ptr<A>();
    A* const rstd = rstds.mutable_data_ptr<A>();
    for (int64_t i = 0; i < n; ++i) {
      rstd[i] = lanes::rms_norm<width>(block, xs + i * d, ws, result.y.mutable_data_ptr<T>() + i * d, d,
                                       static_cast<A>(1e-5));
      lanes::rms_norm_backward<width>(block, dys + i * d, xs + i * d, rstd[i], ws,
                                      result.dx.mutable_data_ptr<T>() + i * d, d);
    }
    for (int64_t column = 0; column < d; column += width)
      store<width>(result.dw.mutable_data_ptr<A>() + column,
                   lanes::rms_norm_dw<width>(dys, xs, rstd, d, 0, n, column));
  });
  return result;
}

TEST(LaneRows, NormMatchesAutograd) {
  for (const int64_t width : {1, 7, 16, 50, 576})
    for (const bool is_wide : {false, true}) {
      if (is_wide && width % full_width<double> != 0) continue;
      const auto x = random_tensor("x", {9, width}), w = random_tensor("w", {width}),
                 dy = random_tensor("dy", {9, width});
      const auto leaf = x.clone().set_requires_grad(true), factor = w.clone().set_requires_grad(true);
      const auto y = norm_reference(leaf, factor, 1e-5);
      const auto wanted = torch::autograd::grad({y}, {leaf, factor}, {dy});
      const auto check = [&](const Norm& found) {
        EXPECT_LT(relative_error(found.y, y.detach()), 1e-12) << width;
        EXPECT_LT(relative_error(found.dx, wanted[0]), 1e-11) << width;
        EXPECT_LT(relative_error(found.dw, wanted[1]), 1e-12) << width;
      };
      check(norm_by(HostLanes<32>(), x, w, dy, is_wide));
      check(norm_by(HostLanes<256>(), x, w, dy, is_wide));
    }
}

TEST(LaneRows, NormIsThatOfTheLoops) {
  for (const auto dtype : every_dtype)
    for (const bool is_wide : {false, true}) {
      const int64_t n = 5, d = 112;
      const auto x = random_tensor("x", {n, d}, dtype), dy = random_tensor("dy", {n, d}, dtype),
                 w = like_arithmetic(random_tensor("w", {d}, dtype));
      const Norm found = norm_by(HostLanes<32>(), x, w, dy, is_wide);
      Norm wanted{at::empty_like(x), at::empty_like(x), at::zeros_like(w)};
      with_type_of(x, [&]<class T>() {
        using A = Accumulate<T>;
        const A* const ws = w.const_data_ptr<A>();
        for (int64_t i = 0; i < n; ++i) {
          const T* const row = x.const_data_ptr<T>() + i * d;
          const A rstd = rows::rms_norm(row, ws, wanted.y.mutable_data_ptr<T>() + i * d, d, 1e-5);
          rows::rms_norm_backward(dy.const_data_ptr<T>() + i * d, row, rstd, ws,
                                  wanted.dx.mutable_data_ptr<T>() + i * d, wanted.dw.mutable_data_ptr<A>(),
                                  d);
        }
      });
      EXPECT_LT(relative_error(found.y, wanted.y), tolerance_of(dtype)) << dtype;
      EXPECT_LT(relative_error(found.dx, wanted.dx), tolerance_of(dtype)) << dtype;
      EXPECT_LT(relative_error(found.dw, wanted.dw), dtype == at::kDouble ? 1e-13 : 2e-6) << dtype;
    }
}

TEST(LaneRows, RotationIsThatOfTheLoopsAndTurnsBack) {
  for (const auto dtype : every_dtype)
    for (const int64_t half : {3, 8, 16}) {
      const int64_t num_heads = 5, d = 2 * half + (half == 8 ? 8 : 0);  // also heads that turn in part
      const auto x = random_tensor("x", {num_heads, d}, dtype);
      const auto angles = 3 * random_tensor("angles", {half});
      const auto cos = like_arithmetic(angles.cos().to(dtype)), sin = like_arithmetic(angles.sin().to(dtype));
      each_width(x, half, [&]<int width, class T>() {
        using A = Accumulate<T>;
        const A *const c = cos.const_data_ptr<A>(), *const s = sin.const_data_ptr<A>();
        const auto found = x.clone(), wanted = x.clone();
        for (const bool inverse : {false, true}) {
          lanes::rotate<width>(HostLanes<128>(), found.mutable_data_ptr<T>(), c, s,
                               static_cast<int>(num_heads), d, static_cast<int>(half), inverse);
          rows::rotate(wanted.mutable_data_ptr<T>(), c, s, num_heads, d, half, inverse);
          EXPECT_LT(relative_error(found, wanted), tolerance_of(dtype)) << dtype << " " << half;
          EXPECT_EQ(relative_error(found, x) > 0.1, !inverse);
        }
      });
    }
}

TEST(LaneRows, RotationMatchesAutograd) {
  const int64_t half = 6, num_heads = 3;
  const Stream stream = stream_of({7});
  const std::vector<double> frequencies{1, 0.5, 0.25, 0.1, 0.01, 0.001};
  const auto x = random_tensor("x", {7, num_heads, 2 * half}),
             dy = random_tensor("dy", {7, num_heads, 2 * half});
  const auto leaf = x.clone().set_requires_grad(true);
  const auto y = rope_reference(leaf, stream, frequencies);
  const auto dx = torch::autograd::grad({y}, {leaf}, {dy})[0];
  const auto angles = at::outer(stream.positions.to(at::kDouble), at::tensor(frequencies, at::kDouble));
  const auto cos = angles.cos(), sin = angles.sin(), turned = x.clone(), back = dy.clone();
  for (int64_t i = 0; i < 7; ++i)
    for (const bool inverse : {false, true})
      lanes::rotate<2>(HostLanes<32>(), (inverse ? back : turned)[i].mutable_data_ptr<double>(),
                       cos[i].const_data_ptr<double>(), sin[i].const_data_ptr<double>(), num_heads, 2 * half,
                       half, inverse);
  EXPECT_LT(relative_error(turned, y.detach()), 1e-13);
  EXPECT_LT(relative_error(back, dx), 1e-13);
}

template <int width, class Act, class T>
void gate(const at::Tensor& dy, at::Tensor& gate, at::Tensor& up, at::Tensor& y) {
  for (int64_t i = 0; i < y.numel(); i += width) {
    T *const g = gate.mutable_data_ptr<T>() + i, *const u = up.mutable_data_ptr<T>() + i;
    lanes::gated<width, Act>(g, u, y.mutable_data_ptr<T>() + i);
    lanes::gated_backward<width, Act>(dy.const_data_ptr<T>() + i, g, u);
  }
}

TEST(LaneRows, GatesMatchAutograd) {
  for (const auto kind : {Activation::silu, Activation::gelu_tanh}) {
    const auto x = 4 * random_tensor("gate", {200}), ups = random_tensor("up", {200}),
               dy = random_tensor("dy", {200});
    const auto g = x.clone().set_requires_grad(true), u = ups.clone().set_requires_grad(true);
    const auto wanted = (kind == Activation::silu ? at::silu(g) : at::gelu(g, "tanh")) * u;
    const auto wanted_d = torch::autograd::grad({wanted}, {g, u}, {dy});
    for (const bool is_wide : {false, true}) {
      auto dgate = x.clone(), dup = ups.clone(), y = at::empty_like(x);
      if (kind == Activation::silu)
        (is_wide ? gate<2, lanes::Silu, double> : gate<1, lanes::Silu, double>)(dy, dgate, dup, y);
      else
        (is_wide ? gate<2, lanes::GeluTanh, double> : gate<1, lanes::GeluTanh, double>)(dy, dgate, dup, y);
      EXPECT_LT(relative_error(y, wanted.detach()), 1e-13);
      EXPECT_LT(relative_error(dgate, wanted_d[0]), 1e-13);
      EXPECT_LT(relative_error(dup, wanted_d[1]), 1e-13);
    }
  }
}

TEST(LaneRows, GatesAreThoseOfTheLoops) {
  for (const auto dtype : every_dtype)
    for (const auto kind : {Activation::silu, Activation::gelu_tanh}) {
      const auto x = 4 * random_tensor("gate", {208}, dtype), ups = random_tensor("up", {208}, dtype),
                 dy = random_tensor("dy", {208}, dtype);
      each_width(x, x.numel(), [&]<int width, class T>() {
        auto g = x.clone(), u = ups.clone(), y = at::empty_like(x);
        kind == Activation::silu ? gate<width, lanes::Silu, T>(dy, g, u, y)
                                 : gate<width, lanes::GeluTanh, T>(dy, g, u, y);
        const auto wanted_g = x.clone(), wanted_u = ups.clone(), wanted = at::empty_like(x);
        rows::gated(kind, wanted_g.const_data_ptr<T>(), wanted_u.const_data_ptr<T>(),
                    wanted.mutable_data_ptr<T>(), x.numel());
        rows::gated_backward(kind, dy.const_data_ptr<T>(), wanted_g.mutable_data_ptr<T>(),
                             wanted_u.mutable_data_ptr<T>(), x.numel());
        EXPECT_LT(relative_error(y, wanted), tolerance_of(dtype)) << dtype;
        EXPECT_LT(relative_error(g, wanted_g), tolerance_of(dtype)) << dtype;
        EXPECT_LT(relative_error(u, wanted_u), tolerance_of(dtype)) << dtype;
      });
    }
}

}  // namespace
}  // namespace duoka::model
