// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "duoka/core/stream.h"

namespace duoka {

/// A micro-batch for a network that is no language model: each sample is a row of one trained token, whose
/// id is the sample's number. Layers and objective look their inputs and what is wanted up by
/// Stream::ids [N].
Stream make_samples(std::span<const int64_t> numbers, at::Device device = at::kCPU);

}  // namespace duoka
