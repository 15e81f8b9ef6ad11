// SPDX-License-Identifier: Apache-2.0
#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::model {

namespace {

constexpr double two_pi = 2 * std::numbers::pi;

/// theta^(-2i/R), i in [0, R/2). RoFormer, eq. 15.
std::vector<double> plain(double theta, int64_t dims) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dims; i += 2)
    frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(dims)));
  return frequencies;
}

int64_t original_max(const RopeConfig& config) {
  return config.original_max_positions > 0 ? config.original_max_positions : config.max_positions;
}

/// All positions closer together. Chen et al., "Extending context window by position interpolation",
/// arXiv:2306.15595, eq. 4.
std::vector<double> linear(const RopeConfig& config) {
  auto frequencies = plain(config.theta, rotary_dims(config));
  for (double& f : frequencies) f /= config.factor;
  return frequencies;
}

/// A larger theta the longer the sequence: theta (s L / L_max - (s - 1))^(R / (R - 2)), so that the slowest
/// pair is interpolated and the fastest is not. "Dynamic NTK", in YaRN, arXiv:2309.00071, sections 3.1
/// and 3.3.
std::vector<double> dynamic(const RopeConfig& config, int64_t length) {
  const auto dims = static_cast<double>(rotary_dims(config));
  const double ratio =
      static_cast<double>(std::max(length, config.max_positions)) / static_cast<double>(config.max_positions);
  const double growth = config.factor * ratio - (config.factor - 1);
  return plain(config.theta * std::pow(growth, dims / (dims - 2)), rotary_dims(config));
}

/// Long waves are interpolated, short ones kept, those between blended by how often they turn within the
/// original context. Dubey et al., "The Llama 3 herd of models", arXiv:2407.21783, and its published code.
std::vector<double> llama3(const RopeConfig& config) {
  auto frequencies = plain(config.theta, rotary_dims(config));
  for (double& f : frequencies) {
    const double turns = static_cast<double>(original_max(config)) * f / two_pi;
    const double kept = std::clamp(
        (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor), 0.0, 1.0);
    f = (1 - kept) * f / config.factor + kept * f;
  }
  return frequencies;
}

/// The (fractional) index of the pair that turns `turns` times within the original context:
/// R ln(L / (2 pi turns)) / (2 ln theta).
double pair_that_turns(const RopeConfig& config, double turns) {
  return static_cast<double>(rotary_dims(config)) *
         std::log(static_cast<double>(original_max(config)) / (turns * two_pi)) /
         (2 * std::log(config.theta));
}

/// As llama3 above with a ramp over the index of the pair. Peng et al., "YaRN", arXiv:2309.00071, section 3.2
/// ("NTK-by-parts", eq. 17-20). The bounds are clipped as the implementations that models were trained with
/// do.
std::vector<double> yarn(const RopeConfig& config) {
  const int64_t dims = rotary_dims(config);
  auto frequencies = plain(config.theta, dims);
  double low = pair_that_turns(config, config.beta_fast), high = pair_that_turns(config, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= interpolated / config.factor + (1 - interpolated);
  }
  return frequencies;
}

void require(bool holds, const char* field, double found, const char* wanted) {
  if (!holds) throw FormatError(text("rotary embedding: ", field, " = ", found, "; wanted ", wanted));
}

}  // namespace

int64_t rotary_dims(const RopeConfig& config) {
  return static_cast<int64_t>(static_cast<double>(config.head_dim) * config.partial_rotary_factor);
}

void check_rope(const RopeConfig& config) {
  using Kind = RopeConfig::Kind;
  const int64_t dims = rotary_dims(config);
  require(config.head_dim >= 2 && config.head_dim <= 1 << 16, "head_dim",
          static_cast<double>(config.head_dim), "2 to 65536");
  require(config.partial_rotary_factor > 0 && config.partial_rotary_factor <= 1, "partial_rotary_factor",
          config.partial_rotary_factor, "above 0, up to 1");
  require(dims >= 2 && dims % 2 == 0, "rotary dims", static_cast<double>(dims), "an even number, 2 or more");
  require(std::isfinite(config.theta) && config.theta > 1, "rope_theta", config.theta, "above 1");
  require(config.max_positions > 0, "max_position_embeddings", static_cast<double>(config.max_positions),
          "above 0");
  if (config.kind == Kind::standard) return;
  require(std::isfinite(config.factor) && config.factor >= 1, "factor", config.factor, "1 or more");
  if (config.kind == Kind::dynamic)
    require(dims > 2, "rotary dims", static_cast<double>(dims), "4 or more for dynamic");
  if (config.kind == Kind::llama3)
    require(config.high_freq_factor > config.low_freq_factor, "high_freq_factor", config.high_freq_factor,
            "more than low_freq_factor");
  if (config.kind == Kind::yarn) {
    require(config.beta_slow > 0, "beta_slow", config.beta_slow, "above 0");
    require(config.beta_fast >= config.beta_slow, "beta_fast", config.beta_fast, "at least beta_slow");
  }
}

std::vector<double> rope_frequencies(const RopeConfig& config, int64_t length) {
  switch (config.kind) {
    case RopeConfig::Kind::standard:
      return plain(config.theta, rotary_dims(config));
    case RopeConfig::Kind::linear:
      return linear(config);
    case RopeConfig::Kind::dynamic:
      return dynamic(config, length);
    case RopeConfig::Kind::llama3:
      return llama3(config);
    case RopeConfig::Kind::yarn:
      return yarn(config);
  }
  throw StateError("rotary embedding of an unknown kind");
}

// 0.1 ln(factor) + 1: YaRN, section 3.4, eq. 22 (there for the temperature of the logits, sqrt(1/t)).
double rope_attention_factor(const RopeConfig& config) {
  if (config.kind != RopeConfig::Kind::yarn) return 1;
  if (config.attention_factor) return *config.attention_factor;
  const auto scale = [&](double mscale) {
    return config.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(config.factor) + 1;
  };
  const double mscale = config.mscale.value_or(0), all_dim = config.mscale_all_dim.value_or(0);
  return mscale != 0 && all_dim != 0 ? scale(mscale) / scale(all_dim) : scale(1);
}

RopeConfig::Kind rope_kind(const std::string& name) {
  using Kind = RopeConfig::Kind;
  if (name == "default") return Kind::standard;
  if (name == "linear") return Kind::linear;
  if (name == "dynamic") return Kind::dynamic;
  if (name == "llama3") return Kind::llama3;
  if (name == "yarn") return Kind::yarn;
  throw FormatError("rope_type = \"" + name +
                    "\" is not known; known are default, linear, dynamic, llama3 and yarn");
}

}  // namespace duoka::model
