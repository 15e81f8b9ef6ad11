// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/pipeline_schedule.h"

namespace duoka::parallel {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void check_enough(int64_t num_layers, int num_stages) {
  if (num_stages < 1)
    throw ConfigError(text("a pipeline of ", counted(num_stages, "stage"), "; wanted at least 1"));
  if (num_layers < num_stages)
    throw ConfigError(text("a pipeline of ", counted(num_stages, "stage"),
                           " needs a layer for each, but the model has ", num_layers,
                           "; lower pipeline_parallel_size or the stages a rank has"));
}

/// Splits into `num_stages` neighbouring parts of at least one layer: value(cost of the first, value(…))
/// combined by `combine(best of the parts before, cost of the last)`, as small as can be.
template <class Combine>
struct BestSplits {
  /// [stages][layers]: the best value of the first `layers` in `stages` parts, and where the last part
  /// begins.
  std::vector<std::vector<double>> value;
  std::vector<std::vector<size_t>> begin;

  BestSplits(const std::vector<double>& upto, size_t num_stages, Combine combine) {
    const size_t num_layers = upto.size() - 1;
    value.assign(num_stages + 1, std::vector<double>(num_layers + 1, infinity));
    begin.assign(num_stages + 1, std::vector<size_t>(num_layers + 1, 0));
    value[0][0] = 0;
    for (size_t stages = 1; stages <= num_stages; ++stages)
      for (size_t end = stages; end <= num_layers; ++end)
        for (size_t first = stages - 1; first < end; ++first) {
          const double found = combine(value[stages - 1][first], upto[end] - upto[first]);
          // On a tie the earlier beginning, so that what is over lies in the last stages: the first ranks
          // have more micro-batches alive.
          if (found >= value[stages][end]) continue;
          value[stages][end] = found;
          begin[stages][end] = first;
        }
  }
};

}  // namespace

std::vector<int64_t> stage_split(std::span<const double> costs, int num_stages) {
  check_enough(static_cast<int64_t>(costs.size()), num_stages);
  for (const double cost : costs)
    if (!(cost >= 0 && cost < infinity)) throw StateError(text("stage_split: a layer costs ", cost));
  std::vector<double> upto(costs.size() + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), upto.begin() + 1);

  const auto stages = static_cast<size_t>(num_stages);
  const BestSplits least(upto, stages, [](double before, double cost) { return std::max(before, cost); });
  const double most = least.value[stages][costs.size()];
  const BestSplits even(upto, stages, [most](double before, double cost) {
    return cost <= most ? before + cost * cost : infinity;
  });

  std::vector<int64_t> layers(stages);
  for (size_t end = costs.size(), stage = stages; stage > 0; --stage) {
    const size_t first = even.begin[stage][end];
    layers[stage - 1] = static_cast<int64_t>(end - first);
    end = first;
  }
  return layers;
}

void check_split(std::span<const int64_t> layers, int64_t num_layers, int num_stages) {
  check_enough(num_layers, num_stages);
  std::vector<std::string> words;
  for (const int64_t count : layers) words.push_back(std::to_string(count));
  const std::string wanted =
      text("; wanted ", counted(num_stages, "number"), ", each at least 1, whose sum is ", num_layers,
           ", or leave pipeline_split out and layers are spread by what they cost");
  if (static_cast<int64_t>(layers.size()) != num_stages)
    throw ConfigError(text("pipeline_split = ", join(words), " has ",
                           counted(static_cast<int64_t>(layers.size()), "number"), wanted));
  if (std::ranges::any_of(layers, [](int64_t count) { return count < 1; }))
    throw ConfigError(text("pipeline_split = ", join(words), " has a stage without a layer", wanted));
  int64_t sum = 0;
  for (const int64_t count : layers)
    if (__builtin_add_overflow(sum, count, &sum)) sum = std::numeric_limits<int64_t>::max();
  if (sum != num_layers)
    throw ConfigError(text("pipeline_split = ", join(words), " adds up to ", sum, wanted));
}

}  // namespace duoka::parallel
