// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/stream.h"

namespace duoka::model {

/// How positions become angles. Fields and meanings are those of `rope_scaling`/`rope_parameters` in a
/// Hugging Face config; what a kind does not use is ignored.
struct RopeConfig {
  enum class Kind { standard, linear, dynamic, llama3, yarn };

  Kind kind = Kind::standard;
  int64_t head_dim = 0;
  double theta = 10000.0;              ///< rope_theta
  double partial_rotary_factor = 1.0;  ///< Share of a head that turns; the rest passes.
  int64_t max_positions = 2048;        ///< max_position_embeddings
  double factor = 1.0;
  int64_t original_max_positions = 0;  ///< original_max_position_embeddings; 0: max_positions.
  double low_freq_factor = 1.0;        ///< llama3
  double high_freq_factor = 4.0;       ///< llama3
  double beta_fast = 32.0;             ///< yarn
  double beta_slow = 1.0;              ///< yarn
  bool truncate = true;                ///< yarn: the ramp's ends at whole dims.
  std::optional<double> attention_factor, mscale, mscale_all_dim;  ///< yarn
};

/// The kind that a config calls `name` ("default", "linear", "dynamic", "llama3", "yarn").
/// Throws FormatError naming the ones there are.
RopeConfig::Kind rope_kind(const std::string& name);

/// Rotary position embedding in the layout of Hugging Face: element i of a head turns with element i + R/2
/// (R = rotary dims). Angles are computed in double from integer positions and rounded once to f32
/// (never in a half type). Shared by the blocks of a model; safe to use from several threads.
/// Source: Su et al., "RoFormer", arXiv:2104.09864, section 3.2.2.
class Rope {
 public:
  /// cos and sin of each token, times the attention factor: [N, R/2], f32 (f64 for a double model).
  struct Angles {
    at::Tensor cos, sin;
  };

  /// Throws FormatError when the numbers cannot be used (head_dim odd or below 2, factor below 1, …).
  explicit Rope(const RopeConfig& config);

  /// Angles of a stream's tokens, on its device. `dtype`: the activations' dtype. Relies on positions below
  /// stream.max_segment, and on `dynamic` on the length of each (whole) row.
  Angles angles(const Stream& stream, at::ScalarType dtype) const;
  /// Angles of positions [first, first + count) of one sequence that is first + count long so far.
  Angles angles(int64_t first, int64_t count, at::ScalarType dtype, at::Device device) const;

  /// Turns x [N, H, head_dim] in place by the angles; `inverse`: by the negative angles, which is the
  /// backward. Arithmetic in f32 for half types.
  static void rotate_(at::Tensor& x, const Angles& angles, bool inverse = false);

  /// Inverse frequencies [R/2] for a sequence of this length (only `dynamic` depends on it).
  std::vector<double> inverse_frequencies(int64_t length) const;
  /// What cos and sin are multiplied by: 1 for all kinds but yarn.
  double attention_factor() const { return attention_factor_; }
  const RopeConfig& config() const { return config_; }

 private:
  struct Table {
    int64_t length = 0;
    at::Tensor cos, sin;  // [length, R/2]
  };
  /// Sequence length where `dynamic` needs it, else 0; dtype; device.
  using Key = std::tuple<int64_t, at::ScalarType, at::DeviceType, at::DeviceIndex>;
  /// A table of at least `length` rows, right for a sequence of that length; made, or made longer, when first
  /// asked for. `dtype`: f32 or f64.
  Table table(int64_t length, at::ScalarType dtype, at::Device device) const;

  RopeConfig config_;
  double attention_factor_ = 1.0;
  mutable std::mutex mutex_;
  mutable std::map<Key, Table> tables_;
};

}  // namespace duoka::model
