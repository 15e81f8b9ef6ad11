// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <numbers>

#include <ATen/Parallel.h>

#include "duoka/core/error.h"
#include "duoka/core/philox.h"
#include "duoka/core/text.h"
#include "duoka/model/weights.h"

namespace duoka::model {

namespace {
// Two normal numbers from two words (Box and Muller, 1958). +0.5: never the logarithm of 0.
std::pair<float, float> normal_pair(uint32_t first, uint32_t second) {
  const double u = (first + 0.5) * 0x1p-32, v = (second + 0.5) * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

void fill_normal(at::Tensor& tensor, double deviation, uint64_t key) {
  auto* out = tensor.mutable_data_ptr<float>();
  const int64_t count = tensor.numel();
  const auto scale = static_cast<float>(deviation);
  at::parallel_for(0, (count + 3) / 4, 1 << 14, [&](int64_t first, int64_t last) {
    for (int64_t group = first; group < last; ++group) {
      const auto words =
          Philox::words({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), 0, 0}, key);
      const auto [a, b] = normal_pair(words[0], words[1]);
      const auto [c, d] = normal_pair(words[2], words[3]);
      const std::array values = {a, b, c, d};
      for (int64_t i = 0; i < std::min<int64_t>(4, count - 4 * group); ++i)
        out[4 * group + i] = scale * values[static_cast<size_t>(i)];
    }
  });
}

class RandomWeights final : public WeightSource {
 public:
  RandomWeights(const ModelConfig& config, uint64_t seed)
      : deviation_(config.initializer_range), seed_(seed) {
    for (auto& [name, shape] : tensors_of(config)) shapes_.emplace(name, shape);
  }

  std::string path() const override { return text("random weights of seed ", seed_); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes_) names.push_back(name);
    return names;
  }
  bool has(const std::string& name) const override { return shapes_.contains(name); }
  std::vector<int64_t> shape(const std::string& name) const override {
    const auto found = shapes_.find(name);
    if (found == shapes_.end()) throw StateError(text(path(), ": no tensor ", name));
    return found->second;
  }
  at::ScalarType dtype(const std::string&) const override { return at::kFloat; }
  at::Tensor read(const std::string& name) const override {
    if (name.ends_with(".bias")) return at::zeros(shape(name), at::kFloat);
    if (name.ends_with("norm.weight")) return at::ones(shape(name), at::kFloat);
    at::Tensor tensor = at::empty(shape(name), at::kFloat);
    fill_normal(tensor, deviation_, random_key(seed_, name));
    return tensor;
  }

 private:
  double deviation_;
  uint64_t seed_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};
}  // namespace

std::unique_ptr<WeightSource> random_weights(const ModelConfig& config, uint64_t seed) {
  return std::make_unique<RandomWeights>(config, seed);
}

}  // namespace duoka::model
