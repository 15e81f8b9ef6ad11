// SPDX-License-Identifier: Apache-2.0
#include "cli/data_files.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "cli/model_files.h"
#include "duoka/data/row_encoder.h"

namespace duoka::cli {

namespace {

uint64_t data_seed(const TrainArguments& arguments) {
  return static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed));
}

data::DatasetOptions dataset_options(const TrainArguments& arguments) {
  data::DatasetOptions options;
  options.max_samples = arguments.max_samples;
  options.cache_folder = arguments.cache_dir;
  options.overwrite_cache = arguments.overwrite_cache;
  options.is_strict = arguments.strict;
  options.num_threads = static_cast<int>(arguments.preprocessing_num_workers.value_or(
      std::max<int64_t>(1, std::thread::hardware_concurrency())));
  return options;
}

}  // namespace

DataSources find_data(const TrainArguments& arguments) {
  DataSources sources;
  sources.train = data::find_sources(arguments.dataset, arguments.dataset_dir);
  if (!arguments.eval_dataset.empty())
    sources.eval = data::find_sources(arguments.eval_dataset, arguments.dataset_dir);
  return sources;
}

TrainData open_data(const TrainArguments& arguments, const DataSources& sources, LazyEncoder& encoder,
                    const Log& log, bool is_reported) {
  data::DatasetOptions options = dataset_options(arguments);
  options.is_reported = is_reported;
  const data::EncoderSource encoding = encoder.source();
  const auto open = [&](const std::vector<data::DataSource>& files) {
    return std::make_shared<const data::Dataset>(data::Dataset::open(files, encoding, options, log));
  };
  auto train = open(sources.train);
  warn_template(arguments.template_, arguments.model_name_or_path, log);
  if (!sources.eval.empty()) return {data::RowSet(std::move(train)), data::RowSet(open(sources.eval))};
  data::Split split = data::split(std::move(train), arguments.val_size, data_seed(arguments));
  if (arguments.val_size == 0) return {std::move(split.train), std::nullopt};
  return {std::move(split.train), std::move(split.held_out)};
}

data::PackOptions train_packing(const TrainArguments& arguments, int num_ranks) {
  data::PackOptions pack;
  pack.is_packing = arguments.packing;
  pack.tokens_per_stream =
      arguments.cutoff_len * (arguments.packing ? arguments.per_device_train_batch_size : 1);
  pack.rows_per_stream = arguments.per_device_train_batch_size;
  pack.streams_per_update = arguments.gradient_accumulation_steps * num_ranks;
  pack.seed = data_seed(arguments);
  pack.is_shuffled = !arguments.disable_shuffling;
  return pack;
}

data::PackOptions eval_packing(const TrainArguments& arguments, int num_ranks) {
  data::PackOptions pack;
  pack.rows_per_stream = arguments.per_device_eval_batch_size;
  pack.streams_per_update = num_ranks;
  pack.is_shuffled = false;
  return pack;
}

}  // namespace duoka::cli
