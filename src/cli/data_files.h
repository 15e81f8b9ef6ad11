// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "cli/lazy_encoder.h"
#include "duoka/cli/train_arguments.h"
#include "duoka/core/log.h"
#include "duoka/data/dataset.h"

namespace duoka::cli {

/// The data of a training: what trains and what is held out for evaluation.
struct TrainData {
  data::RowSet train;
  std::optional<data::RowSet> eval;
};

/// Finds and checks the files that `arguments` name. Cheap; call before a model is opened.
struct DataSources {
  std::vector<data::DataSource> train, eval;
};
DataSources find_data(const TrainArguments& arguments);

/// Tokenises (or maps the cache of) the data. `is_reported`: what was read and refused is logged.
/// Throws DataError when there is nothing to train on.
TrainData open_data(const TrainArguments& arguments, const DataSources& sources, LazyEncoder& encoder,
                    const Log& log, bool is_reported = true);

/// How rows are laid into streams for training over `num_ranks`; for evaluation, in order and unpacked.
data::PackOptions train_packing(const TrainArguments& arguments, int num_ranks);
data::PackOptions eval_packing(const TrainArguments& arguments, int num_ranks);

}  // namespace duoka::cli
