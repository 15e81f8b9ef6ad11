// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/dtype.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "duoka/core/error.h"

namespace duoka::io {
namespace {

TEST(DType, NamesGoBothWays) {
  for (int i = 0; i <= static_cast<int>(DType::f8_e5m2); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(dtype)), dtype);
  }
  EXPECT_EQ(safetensors_name(DType::bf16), "BF16");
  EXPECT_EQ(size_of(DType::i64), 8);
  EXPECT_EQ(dtype_from_safetensors("F4"), std::nullopt);
}

/// The half a finite positive value is nearest to, by search among all: slow and plainly right.
uint16_t nearest_half(double value) {
  uint16_t best = 0;
  double best_distance = std::abs(value);
  for (uint16_t bits = 1; bits < 0x7C00; ++bits) {
    const double distance = std::abs(half_to_float(bits) - value);
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0)) {
      best = bits;
      best_distance = distance;
    }
  }
  return best;
}

TEST(Half, EveryBitPatternSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_EQ(float_to_half(value) & 0x7E00, 0x7E00);
    } else {
      EXPECT_EQ(float_to_half(value), bits);
    }
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(half_to_float(0x3C00), 1.0f);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(half_to_float(0x8400), -0x1p-14f);
  EXPECT_TRUE(std::isinf(half_to_float(0xFC00)));
  EXPECT_TRUE(std::isnan(half_to_float(0x7E01)));
}

TEST(Half, RoundsToNearestTiesToEven) {
  for (const double value : {0.1, 1.0 / 3, 3e-5, 6.1e-5, 0x1p-25, 0x1.8p-24, 0x1p-14 - 0x1p-26, 1 + 0x1p-11,
                             1 + 0x1.8p-10, 2049.0, 2051.0, 65503.0, 1e-9})
    EXPECT_EQ(float_to_half(static_cast<float>(value)), nearest_half(static_cast<float>(value))) << value;
  EXPECT_EQ(float_to_half(65519.0f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);  // half way to the number after the largest
  EXPECT_EQ(float_to_half(-1e30f), 0xFC00);
}

TEST(Bfloat16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(float_to_bfloat16(1.0f), 0x3F80);
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1p-8f), 0x3F80);             // a tie, down to even
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1p-7f + 0x1p-8f), 0x3F82);   // a tie, up to even
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1p-8f + 0x1p-20f), 0x3F81);  // over half
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7F800001u)))));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(float_to_bfloat16(value), bits);
    }
  }
}

TEST(Convert, ReadsUnalignedBytesOfAllFloatingTypes) {
  const std::vector<float> values{0.0f, -1.5f, 65504.0f, 0x1p-20f};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<std::byte> bytes(1 + values.size() * static_cast<size_t>(size_of(dtype)));
    convert_from_float(values, dtype, std::span(bytes).subspan(1));
    std::vector<float> back(values.size());
    convert_to_float(std::span(bytes).subspan(1), dtype, back);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(back[i], values[i], std::abs(values[i]) / 256);
  }
  const std::vector<double> doubles{1.25, -3e10};
  std::vector<float> out(2);
  convert_to_float(std::as_bytes(std::span(doubles)), DType::f64, out);
  EXPECT_EQ(out, (std::vector<float>{1.25f, -3e10f}));
}

TEST(Convert, RefusesWrongSizesAndTypes) {
  std::vector<std::byte> bytes(7);
  std::vector<float> values(2);
  EXPECT_THROW(convert_to_float(bytes, DType::f32, values), StateError);
  EXPECT_THROW(convert_to_float(std::span(bytes).first(2), DType::i8, values), StateError);
  EXPECT_THROW(convert_from_float(values, DType::i8, std::span(bytes).first(2)), StateError);
}

}  // namespace
}  // namespace duoka::io
