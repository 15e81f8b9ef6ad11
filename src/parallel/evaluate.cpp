// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "duoka/comm/collectives.h"
#include "parallel/loss_sums.h"

namespace duoka::parallel {

LossSums walk_streams(Chain& chain, const std::vector<const Stream*>& streams, WalkObserver& observer) {
  LossSums own;
  for (const Stream* stream : streams)
    own += {walk_forward(chain, stream, observer), stream != nullptr ? stream->num_trained : 0};
  return own;
}

LossSums sum_over(const LossSums& own, const comm::Group& group) {
  // One message: f64 holds counts exactly up to 2^53.
  at::Tensor sums = at::tensor({own.loss_sum, static_cast<double>(own.num_trained)}, at::kDouble);
  comm::all_reduce(sums, comm::Op::sum, group);
  return {sums[0].item<double>(), static_cast<int64_t>(sums[1].item<double>())};
}

LossSums evaluate(Chain& chain, std::span<const Stream> streams, const comm::Group& data) {
  const at::NoGradGuard no_grad;
  std::vector<const Stream*> useful;
  for (const Stream& stream : streams)
    if (stream.num_trained > 0) useful.push_back(&stream);
  WalkObserver nobody;
  return sum_over(walk_streams(chain, useful, nobody), data);
}

}  // namespace duoka::parallel
