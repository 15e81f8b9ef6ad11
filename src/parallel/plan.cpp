// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/plan.h"

#include <limits>
#include <utility>
#include <vector>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

namespace {

void require_at_least_one(const char* name, int value) {
  if (value < 1) throw ConfigError(text(name, " = ", value, "; wanted 1 or more"));
}

std::string divisors_text(int number) {
  std::vector<std::string> found;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(std::to_string(i));
  return join(found);
}

/// "tensor_parallel_size 2 x pipeline_parallel_size 4": those above one.
std::string model_sizes(const Plan& plan) {
  std::vector<std::string> sizes;
  for (const auto& [name, size] :
       {std::pair("tensor_parallel_size ", plan.tensor), std::pair("pipeline_parallel_size ", plan.pipeline),
        std::pair("context_parallel_size ", plan.context)})
    if (size > 1) sizes.push_back(text(name, size));
  return join(sizes, " x ");
}

/// Ranks left for data beside those that each copy of the model takes.
int data_ranks(const Plan& plan, int num_ranks) {
  // One after the other, so that no product leaves int64: each factor is below 2^31.
  int64_t model_ranks = int64_t{plan.tensor} * plan.pipeline;
  const bool is_too_much = model_ranks > std::numeric_limits<int>::max() && plan.context > 1;
  if (!is_too_much) model_ranks *= plan.context;
  if (num_ranks % model_ranks != 0)
    throw ConfigError(text(
        model_sizes(plan), " takes ", is_too_much ? "more than " : "", model_ranks, " ranks, ",
        num_ranks == 1 ? "but only 1 is" : text("which does not divide the ", num_ranks), " started; start ",
        is_too_much ? "a multiple of that product" : text(model_ranks, " or a multiple of ", model_ranks),
        " (--cards N), or choose sizes whose product is ",
        num_ranks == 1 ? "1" : text("one of ", divisors_text(num_ranks))));
  const auto left = static_cast<int>(num_ranks / model_ranks);
  if (plan.data != 0 && plan.data != left)
    throw ConfigError(text("data parallel degree = ", plan.data, " needs ", plan.data * model_ranks,
                           " ranks, but ", num_ranks, num_ranks == 1 ? " is" : " are", " started; use ", left,
                           " (or 0 for all), or start ", plan.data * model_ranks));
  return left;
}

void check_pipeline(const Plan& plan) {
  constexpr int most_chunks = 1024;  // a list of every rank's actions is made of them
  if (plan.chunks > most_chunks)
    throw ConfigError(text("pipeline_chunks = ", plan.chunks, "; wanted at most ", most_chunks,
                           ", and no more than the layers of a rank"));
  pipeline_lists({plan.schedule, plan.pipeline, 0, plan.chunks});
  if (plan.pipeline == 1 && (plan.chunks > 1 || !plan.split.empty()))
    throw ConfigError(
        "a split of the layers into pipeline stages without a pipeline; set pipeline_parallel_size to 2 or "
        "more");
}

}  // namespace

Plan resolve(const Plan& plan, int num_ranks) {
  if (num_ranks < 1) throw ConfigError(text("number of ranks = ", num_ranks, "; wanted at least 1"));
  if (plan.data < 0)
    throw ConfigError(text("data parallel degree = ", plan.data, "; wanted 1 or more, or 0 for all ranks"));
  if (plan.zero_stage < 0 || plan.zero_stage > 3)
    throw ConfigError(text("zero_stage = ", plan.zero_stage, "; wanted 0, 1, 2 or 3"));
  require_at_least_one("tensor_parallel_size", plan.tensor);
  require_at_least_one("pipeline_parallel_size", plan.pipeline);
  require_at_least_one("context_parallel_size", plan.context);

  Plan resolved = plan;
  resolved.data = data_ranks(plan, num_ranks);
  check_pipeline(plan);
  if (plan.zero_stage == 0) {
    if (plan.shard > 1)
      throw ConfigError(
          text("zero_shard_size = ", plan.shard, " without zero_stage; set zero_stage to 1, 2 or 3"));
    resolved.shard = 1;
  } else if (plan.shard == 0) {
    resolved.shard = resolved.data;
  } else if (plan.shard < 0 || resolved.data % plan.shard != 0) {
    throw ConfigError(text("zero_shard_size = ", plan.shard, " does not divide the ",
                           counted(resolved.data, "data-parallel rank"),
                           "; sizes that work: ", divisors_text(resolved.data)));
  }
  return resolved;
}

comm::MeshShape mesh_shape(const Plan& plan) {
  comm::MeshShape shape;
  shape.pipeline = plan.pipeline;
  shape.data = plan.data / plan.shard;
  shape.shard = plan.shard;
  shape.context = plan.context;
  shape.tensor = plan.tensor;
  return shape;
}

std::string describe(const Plan& plan) {
  std::vector<std::string> parts;
  const std::vector<std::pair<const char*, int>> sizes = {
      {"data", plan.data}, {"context", plan.context}, {"tensor", plan.tensor}, {"pipeline", plan.pipeline}};
  for (const auto& [name, size] : sizes)
    if (size > 1) parts.push_back(text(name, " ", size));
  if (parts.empty()) return "one rank";
  std::string line = join(parts, " x ");
  if (plan.pipeline > 1) line += text(", ", schedule_name(plan.schedule));
  if (plan.zero_stage > 0) line += text(", ZeRO-", plan.zero_stage);
  if (plan.zero_stage > 0 && plan.shard < plan.data) line += text(" within ", plan.shard);
  return line;
}

}  // namespace duoka::parallel
