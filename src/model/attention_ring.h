// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "duoka/core/stream.h"
#include "duoka/model/context_axis.h"
#include "model/attention_kernel.h"

/// Attention over rows that lie on several ranks: each keeps its queries, and keys and values go round a
/// ring. What a rank's queries see of one block is merged with what they saw before by the log-sum-exp, in
/// f32 (f64 for f64). In backward keys and values go round once more, and their gradients travel along.
/// Source: Liu et al., "Ring Attention with Blockwise Transformers", arXiv:2310.01889; for which chunks a
/// rank has see RowPart.
namespace duoka::model {

/// All that queries of rank `rank` see of the keys of rank `source`: at most one piece a row, none empty. The
/// numbers of pairs are about the same for every two ranks, which is what the cut in chunks is for.
std::vector<AttentionPiece> ring_pieces(const std::vector<int64_t>& row_lengths, int rank, int source,
                                        int size);

/// attend() over the axis; over a solo one attend() itself. q, k, v: of this rank's part of the stream. Keeps
/// the log-sum-exp [n, H] in Attended::context. Sends the block [2, n, Hkv, d] of each rank but the next one.
/// Throws StateError for a stream that is not this rank's part, and for a window shorter than a row.
Attended attend_ring(const ContextAxis& axis, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const Stream& stream, int64_t window);
/// Sends the blocks again, and as many of gradients, these in f32 for half types.
AttentionGradients attend_ring_backward(const ContextAxis& axis, const at::Tensor& dout, const at::Tensor& q,
                                        const at::Tensor& k, const at::Tensor& v, const Attended& attended,
                                        const Stream& stream, int64_t window);
/// Number of tensors in Attended::context.
size_t num_ring_context(const ContextAxis& axis, const at::Tensor& q);

}  // namespace duoka::model
