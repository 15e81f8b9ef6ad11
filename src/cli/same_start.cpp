// SPDX-License-Identifier: Apache-2.0
#include "cli/same_start.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <torch/version.h>

#include "cli/file_identity.h"
#include "cli/version.h"
#include "duoka/comm/agreement.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

/// Options that say where things lie, or how this machine goes about it; what lies there is compared instead.
constexpr std::array<std::string_view, 10> own_to_a_rank{"model_name_or_path",
                                                         "adapter_name_or_path",
                                                         "dataset",
                                                         "eval_dataset",
                                                         "dataset_dir",
                                                         "cache_dir",
                                                         "offload_folder",
                                                         "preprocessing_num_workers",
                                                         "template",
                                                         "overwrite_cache"};

void add_files(comm::Facts& facts, const std::string& what, const std::string& path) {
  if (path.empty()) return;
  for (const auto& [name, identity] : identities_of(path)) facts[text(what, " file ", name)] = identity;
}

void add_data(comm::Facts& facts, const std::string& what, const data::RowSet& rows) {
  facts[text(what, " rows")] = count_text(rows.size());
  int number = 0;
  for (const auto& part : rows.dataset().parts())
    // The cache file's name is a hash of data, tokenizer, template and options.
    facts[text(what, " file ", ++number)] = std::filesystem::path(part.cache.path()).stem().string();
}

}  // namespace

void require_same_start(const TrainArguments& arguments, const comm::Group& group) {
  if (group.size() == 1) return;
  comm::Facts facts{{"version of duoka", version}, {"version of libtorch", TORCH_VERSION}};
  for (const auto& option : train_options().options())
    if (std::ranges::find(own_to_a_rank, option.name) == own_to_a_rank.end())
      facts[option.name] = option.get(arguments);
  add_files(facts, "model", arguments.model_name_or_path);
  add_files(facts, "adapter", arguments.adapter_name_or_path);
  comm::require_same(facts, group);
}

void require_same_data(const TrainData& data, const comm::Group& group) {
  if (group.size() == 1) return;
  comm::Facts facts;
  add_data(facts, "training data", data.train);
  if (data.eval) add_data(facts, "evaluation data", *data.eval);
  comm::require_same(facts, group);
}

}  // namespace duoka::cli
