// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "duoka/model/rope.h"

namespace duoka::model {

/// Throws FormatError naming the first field that cannot be used.
void check_rope(const RopeConfig& config);

/// Dims of a head that turn, R.
int64_t rotary_dims(const RopeConfig& config);

/// Radians a position, for each of the R/2 pairs, in a sequence of `length` tokens.
std::vector<double> rope_frequencies(const RopeConfig& config, int64_t length);

/// What cos and sin are multiplied by.
double rope_attention_factor(const RopeConfig& config);

}  // namespace duoka::model
