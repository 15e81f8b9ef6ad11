// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/parameter.h"

namespace duoka::parallel {

/// A large table [V, D] that the head shares with a lookup (a tied embedding). The head, first on the way
/// back, gives each row a gradient; the lookup, last of all, only the rows of the micro-batch's tokens. So
/// the head's part is sent as soon as it is there, with the whole way back to hide behind, and of the
/// lookup's part only the rows that it touched. Without this the largest transfer of a small model would
/// begin when there is nothing left to compute.
///
/// One last micro-step: begin(), open_rows() at the head when is_split(), add_rows() at the end. Right for
/// whatever the stages below the head add; fast where it is few rows.
class SplitTable final {
 public:
  /// head_stage: the lowest but one of the stages that use `parameter`. group: whom its gradient is summed
  /// over.
  SplitTable(Parameter& parameter, int64_t head_stage, comm::Group group);

  /// Whether sending each rank's rows costs little beside the sum of the whole table, if each has at most
  /// `num_tokens`.
  static bool is_worth_it(const Parameter& table, int64_t num_tokens, int num_ranks);

  /// The last micro-step, of `num_tokens` tokens here; < 0: not known, it stays whole. Starts agreeing on
  /// whether the rows are few on every rank, so that splitting saves. Collective; 8 bytes.
  void begin(int64_t num_tokens);
  /// Whether `stage` is the head, or below, and it was not asked before in this step, and the table is split.
  /// Waits for what begin() started.
  bool comes_to_head(int64_t stage);
  /// Parameter::grad now takes up rows instead of adding to what is sent.
  void open_rows();
  /// Gives `add` the rows that each rank's lookup added, in the ranks' order: ids [m] i64, not repeated but
  /// for padding, whose rows are zero; rows [m, D]. Does nothing unless split. Collective, waits; sends each
  /// rank's rows to all others.
  void add_rows(const std::function<void(const at::Tensor& ids, const at::Tensor& rows)>& add);

  bool is_split() const { return is_split_; }

 private:
  Parameter* parameter_;
  int64_t head_stage_;
  comm::Group group_;
  at::Tensor most_tokens_;  // of all ranks, from begin() on
  comm::Pending agreement_;
  bool is_at_head_ = false, is_split_ = false;
};

}  // namespace duoka::parallel
