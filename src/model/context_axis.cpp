// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/context_axis.h"

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/model/config.h"

namespace duoka::model {

namespace {

class SoloAxis final : public ContextAxis {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Exchange> start_exchange(const at::Tensor&, at::Tensor) const override {
    throw StateError("a context axis of one rank has no next rank to exchange with");
  }
};

}  // namespace

std::shared_ptr<const ContextAxis> solo_context_axis() {
  static const auto solo = std::make_shared<const SoloAxis>();
  return solo;
}

void require_solo(const ContextAxis& axis, const char* what) {
  if (axis.is_solo()) return;
  throw StateError(text(what, " works on whole rows; those of this model are shared by ", axis.size(),
                        " ranks of context parallelism"));
}

void check_context_parallel(const ModelConfig& config, int64_t size, int64_t longest_row) {
  if (size == 1) return;
  for (size_t layer = 0; layer < config.windows.size(); ++layer)
    if (config.windows[layer] > 0 && config.windows[layer] < longest_row)
      throw ConfigError(text("context_parallel_size = ", size, ": layer ", layer, " has a sliding window of ",
                             config.windows[layer], " tokens and rows may have ", longest_row,
                             "; ring attention knows no windows: cut rows to ", config.windows[layer],
                             " tokens, or use context_parallel_size = 1"));
}

}  // namespace duoka::model
