// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

#include "duoka/data/dataset.h"
#include "duoka/data/pack.h"

namespace duoka::data {

class Tokenizer;

struct InspectOptions {
  int64_t num_rows = 3;          ///< Rows shown token by token.
  int64_t num_refusals = 20;     ///< Refused rows listed for each file.
  int64_t max_row_tokens = 512;  ///< Tokens shown of one row; the middle is left out.
  bool has_colors = false;       ///< Trained tokens in colour; else in [brackets].
  int64_t cutoff_len = 0;        ///< For the head line on truncation.
  PackOptions pack;              ///< The fill is that of epoch 0's plan.
};

/// Writes what training will see: for each file `rows read 8, used 6, refused 2`, refused rows as
/// file:line: reason, warnings; the first rows as tokens with the trained ones marked; a histogram of
/// lengths; what the cut-off took; how full the streams are.
void inspect(std::ostream& out, const RowSet& rows, const Tokenizer& tokenizer,
             const InspectOptions& options);

/// One row as text: `<|im_start|>assistant⏎[ sat][<|im_end|>]`. Control characters and bytes that are no
/// UTF-8 are written as escapes, so nothing a row holds reaches a terminal raw.
std::string marked_tokens(std::span<const int32_t> ids, std::span<const int32_t> labels,
                          const Tokenizer& tokenizer, bool has_colors, int64_t max_tokens);

}  // namespace duoka::data
