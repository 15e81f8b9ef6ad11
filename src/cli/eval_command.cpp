// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iomanip>
#include <iostream>

#include "cli/data_files.h"
#include "cli/model_files.h"
#include "cli/ranks.h"
#include "cli/training_setup.h"
#include "duoka/cli/command.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/evaluate.h"

namespace duoka::cli {

namespace {

/// The rows that evaluation is over: eval_dataset, or what val_size holds out, or all of dataset.
data::RowSet rows_of(const TrainArguments& arguments, LazyEncoder& encoder, const Log& log) {
  TrainData data = open_data(arguments, find_data(arguments), encoder, log);
  return data.eval ? std::move(*data.eval) : std::move(data.train);
}

int eval_on(const TrainArguments& arguments, RankContext& context) {
  const Log& log = context.log;
  LazyEncoder encoder(arguments);
  const data::RowSet rows = rows_of(arguments, encoder, log);
  model::Decoder decoder = model::Decoder::load(
      arguments.model_name_or_path, {arguments.bf16 ? at::kBFloat16 : at::kFloat, context.device, log});
  attach_adapter(decoder, arguments.adapter_name_or_path, arguments.model_name_or_path, log);

  const int num_ranks = context.group.size();
  data::Loader loader(rows,
                      {eval_packing(arguments, num_ranks), context.group.rank(), num_ranks, context.device});
  const int64_t num_batches = loader.num_updates(0);
  parallel::LossSums sums;
  {
    Progress progress(log, "evaluating", num_batches, "batch");
    for (int64_t i = 0; i < num_batches; ++i) {
      data::Update batch = loader.get(0, i);
      for (Stream& stream : batch.streams) stream.is_training = false;
      sums += parallel::evaluate(decoder.chain(), batch.streams, context.group);
      progress.advance(1);
    }
  }
  if (log.rank() != 0) return 0;
  if (!std::isfinite(sums.mean()))
    throw StateError(text("the loss is not finite; the weights of ", arguments.model_name_or_path,
                          " or of the adapter are damaged"));
  std::cout << std::setprecision(7) << "{\"eval_loss\": " << sums.mean()
            << ", \"perplexity\": " << std::exp(sums.mean()) << ", \"rows\": " << rows.size()
            << ", \"trained_tokens\": " << sums.num_trained << "}" << std::endl;
  return 0;
}

int run(const CommandLine& line) {
  TrainArguments arguments = read_options(OptionWords::parse(line.words), inspect_options());
  if (!arguments.eval_dataset.empty() && !arguments.dataset.empty()) arguments.dataset.clear();
  if (arguments.dataset.empty()) std::swap(arguments.dataset, arguments.eval_dataset);
  if (arguments.dataset.empty()) throw ConfigError("not given: dataset or eval_dataset");
  check_model_path(arguments.model_name_or_path, "model_name_or_path");
  find_data(arguments);
  return run_on_ranks(line, arguments.ddp_timeout,
                      [&](RankContext& context) { return eval_on(arguments, context); });
}

}  // namespace

const Command eval_command{
    "eval",
    "Loss and perplexity of a model on data: eval_dataset, else what val_size holds out, else dataset.",
    "[CONFIG.yaml] [key=value …] [--cards N]   (the keys of a training)",
    run,
    [](int columns) { return inspect_options().help(columns); },
    [] { return inspect_options().json_schema("duoka eval"); },
    [] { return inspect_options().markdown(); },
    rank_flags(),
};

}  // namespace duoka::cli
