// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/model/config.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::model {

namespace {
bool has_some_for_all(int64_t total, int64_t size) {
  return part_of(total, static_cast<int>(size) - 1, static_cast<int>(size)).count > 0;
}

bool can_share(const ModelConfig& config, int64_t size) {
  return size >= 1 && size <= config.num_kv_heads && config.num_heads % size == 0 &&
         config.num_kv_heads % size == 0 && has_some_for_all(config.intermediate_size, size) &&
         has_some_for_all(config.vocab_size, size);
}
}  // namespace

void check_tensor_parallel(const ModelConfig& config, int64_t size) {
  if (size == 1 || can_share(config, size)) return;
  std::vector<std::string> sizes;
  for (int64_t other = 1; other <= config.num_kv_heads; ++other)
    if (other == 1 || can_share(config, other)) sizes.push_back(std::to_string(other));
  const bool has_heads = size >= 1 && config.num_heads % size == 0 && config.num_kv_heads % size == 0;
  const std::string what =
      has_heads ? text("intermediate_size ", config.intermediate_size, " and vocab_size ", config.vocab_size,
                       " leave a rank without any")
                : text(config.num_heads, " attention heads and ", config.num_kv_heads, " key-value heads");
  throw ConfigError(text("tensor_parallel_size = ", size, ": ", what, "; sizes that work: ", join(sizes)));
}

}  // namespace duoka::model
