// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cli/data_files.h"
#include "duoka/cli/train_arguments.h"
#include "duoka/comm/group.h"

namespace duoka::cli {

/// Throws ConfigError on all ranks, with the key, a rank and both values, unless all were started alike: the
/// version of duoka and of libtorch, every option that changes what is computed, and the files of model and
/// adapter by size and contents (64 samples of a large one), wherever they lie. Collective.
void require_same_start(const TrainArguments& arguments, const comm::Group& group);

/// The same for the data: the tokens of each file, and how many rows train. Collective.
void require_same_data(const TrainData& data, const comm::Group& group);

}  // namespace duoka::cli
