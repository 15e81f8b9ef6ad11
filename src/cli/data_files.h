// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "duoka/cli/train_arguments.h"
#include "duoka/core/log.h"
#include "duoka/data/chat_template.h"
#include "duoka/data/dataset.h"
#include "duoka/data/row_encoder.h"
#include "duoka/data/tokenizer.h"

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

/// How rows become tokens by `arguments`.
data::RowEncoder make_encoder(const TrainArguments& arguments, const data::Tokenizer& tokenizer,
                              const std::optional<data::ChatTemplate>& chat_template);

/// Tokenises (or maps the cache of) the data. `is_reported`: what was read and refused is logged.
/// Throws DataError when there is nothing to train on.
TrainData open_data(const TrainArguments& arguments, const DataSources& sources,
                    const data::RowEncoder& encoder, const Log& log, bool is_reported = true);

/// How rows are laid into streams for training over `num_ranks`; for evaluation, in order and unpacked.
data::PackOptions train_packing(const TrainArguments& arguments, int num_ranks);
data::PackOptions eval_packing(const TrainArguments& arguments, int num_ranks);

}  // namespace duoka::cli
