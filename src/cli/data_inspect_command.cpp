// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>

#include <unistd.h>

#include "cli/data_files.h"
#include "cli/model_files.h"
#include "duoka/cli/command.h"
#include "duoka/core/error.h"
#include "duoka/data/inspect.h"

namespace duoka::cli {

namespace {

int run(const CommandLine& line) {
  const TrainArguments arguments = read_options(OptionWords::parse(line.words), inspect_options());
  if (arguments.dataset.empty()) throw ConfigError("not given: dataset");
  check_model_path(arguments.model_name_or_path, "model_name_or_path");
  const DataSources sources = find_data(arguments);
  const Log log;
  LazyEncoder encoder(arguments);
  const TrainData data = open_data(arguments, sources, encoder, log, /*is_reported=*/false);
  data::InspectOptions options;
  options.has_colors = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  options.cutoff_len = arguments.cutoff_len;
  options.pack = train_packing(arguments, line.num_cards > 0 ? line.num_cards : 1);
  data::inspect(std::cout, data.train, encoder.tokenizer(), options);
  return 0;
}

}  // namespace

const Command data_inspect_command{
    "data inspect",
    "Show data as training sees it: tokens, trained ones marked, lengths, refused rows.",
    "[CONFIG.yaml] model_name_or_path=… dataset=… [key=value …] [--cards N]   (the keys of a training)",
    run,
    [](int columns) { return inspect_options().help(columns); },
    [] { return inspect_options().json_schema("duoka data inspect"); },
    [] { return inspect_options().markdown(); },
    {{"cards", "N", "Cards of the training: decides how many updates an epoch has."}},
};

}  // namespace duoka::cli
