// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/evaluate.h"

#include <ATen/core/grad_mode.h>

#include "duoka/comm/collectives.h"
#include "parallel/walk.h"

namespace duoka::parallel {

LossSums evaluate(Chain& chain, std::span<const Stream> streams, const comm::Group& data) {
  const at::NoGradGuard no_grad;
  LossSums own;
  for (const Stream& stream : streams) {
    if (stream.num_trained == 0) continue;
    own += {walk_forward(chain, stream), stream.num_trained};
  }
  // One message: f64 holds counts exactly up to 2^53.
  at::Tensor sums = at::tensor({own.loss_sum, static_cast<double>(own.num_trained)}, at::kDouble);
  comm::all_reduce(sums, comm::Op::sum, data);
  return {sums[0].item<double>(), static_cast<int64_t>(sums[1].item<double>())};
}

}  // namespace duoka::parallel
