// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>

#include "cli/model_files.h"
#include "duoka/cli/command.h"
#include "duoka/cli/export_arguments.h"
#include "duoka/cli/read_options.h"
#include "duoka/cli/train_arguments.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/model/export.h"
#include "duoka/model/weights.h"
#include "duoka/tune/merge.h"

namespace duoka::cli {

namespace {

using A = ExportArguments;
namespace fs = std::filesystem;

OptionTable<A> make_table(bool needs_adapter) {
  OptionTable<A> t;
  t.group("Options");
  t.add("model_name_or_path", &A::model_name_or_path, "Base model: a Hugging Face folder or a .gguf file.")
      .required();
  if (needs_adapter)
    t.add("adapter_name_or_path", &A::adapter_name_or_path, "PEFT adapter folder to merge into the base.")
        .required();
  t.add("export_dir", &A::export_dir,
        "Folder to write; it appears when it is complete. Folders above it are made.")
      .required();
  t.add("export_dtype", &A::export_dtype, "auto: as the base has it (quantised bases: float16).")
      .one_of({"auto", "float32", "float16", "bfloat16"});
  t.add("max_shard_size", &A::max_shard_size, "Largest safetensors file.");
  t.add("overwrite_export_dir", &A::overwrite_export_dir, "Replace a folder that exists.");
  return t;
}

/// A file that a folder of a model has, whoever wrote it.
bool is_of_a_model(const fs::directory_entry& entry) {
  static constexpr std::array<std::string_view, 6> others{"README.md",  "LICENSE",    ".gitattributes",
                                                          ".gitignore", "merges.txt", "tokenizer.model"};
  const std::string name = entry.path().filename().string();
  const std::string extension = entry.path().extension().string();
  return entry.is_regular_file() &&
         (extension == ".json" || extension == ".safetensors" || extension == ".jinja" ||
          std::find(others.begin(), others.end(), name) != others.end()) &&
         !name.starts_with("adapter_");
}

/// A folder may be replaced when it is empty or a model's and nothing else; the rest is not ours to remove.
void check_replaceable(const A& arguments) {
  const fs::path folder = arguments.export_dir;
  if (fs::equivalent(folder, arguments.model_name_or_path))
    throw ConfigError(
        text("export_dir: ", arguments.export_dir, " is the base model itself; choose another folder"));
  if (!fs::is_directory(folder) || (!fs::is_empty(folder) && !fs::exists(folder / "config.json")))
    throw ConfigError(text("export_dir: ", arguments.export_dir,
                           " holds no model (no config.json) and is not replaced; choose another folder"));
  for (const auto& entry : fs::directory_iterator(folder))
    if (!is_of_a_model(entry))
      throw ConfigError(text("export_dir: ", arguments.export_dir, " holds more than a model (",
                             entry.path().filename().string(),
                             ") and is not replaced; choose another folder"));
}

A read_arguments(const CommandLine& line, bool needs_adapter) {
  A arguments = read_options(OptionWords::parse(line.words), export_options(needs_adapter));
  check_model_path(arguments.model_name_or_path, "model_name_or_path");
  parse_size(arguments.max_shard_size);
  if (!fs::exists(arguments.export_dir)) return arguments;
  if (!arguments.overwrite_export_dir)
    throw ConfigError(text("export_dir: ", arguments.export_dir,
                           " exists; choose another or set overwrite_export_dir=true"));
  check_replaceable(arguments);
  return arguments;
}

/// Before minutes of work, not after them.
void make_parents(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (error)
    throw SystemError(text("export_dir: cannot make the folder ", folder.parent_path().string(), ": ",
                           error.message(), "; choose another export_dir"));
}

/// Writes the folder by `write`, adds the tokenizer, and gives it its name. A folder of that name goes only
/// when the new one is complete.
void write_folder(const A& arguments, const std::function<void(const fs::path&)>& write) {
  const data::Tokenizer tokenizer = open_tokenizer(arguments.model_name_or_path);
  const fs::path final_path = fs::absolute(arguments.export_dir) / "";
  const fs::path name = final_path.parent_path();
  const bool is_replaced = fs::exists(name);
  make_parents(name);
  const fs::path staged = is_replaced ? fs::path(name.string() + ".new") : name;
  AtomicDirectory folder(staged);
  write(folder.path());
  tokenizer.save(folder.path());
  folder.commit();
  if (is_replaced) replace_folder(staged, name);
  std::cout << "wrote " << arguments.export_dir << std::endl;
}

int run_merge(const CommandLine& line) {
  const A arguments = read_arguments(line, true);
  write_folder(arguments, [&](const fs::path& folder) {
    tune::merge_adapter(arguments.model_name_or_path, arguments.adapter_name_or_path, folder,
                        {dtype_of(arguments), parse_size(arguments.max_shard_size), Log()});
  });
  return 0;
}

int run_export(const CommandLine& line) {
  const A arguments = read_arguments(line, false);
  const model::ModelConfig config = model::read_config(arguments.model_name_or_path);
  const auto weights = model::open_weights(arguments.model_name_or_path, config);
  write_folder(arguments, [&](const fs::path& folder) {
    const auto wanted = dtype_of(arguments);
    // A quantised file has no dtype of its own; f16 keeps what its blocks hold.
    const auto dtype = [&](const std::string& name) {
      return wanted.value_or(weights->is_quantized(name) ? at::kHalf : weights->dtype(name));
    };
    model::export_folder(
        folder, config, {dtype, [&](const std::string& name) { return weights->read(name).to(dtype(name)); }},
        {std::nullopt, parse_size(arguments.max_shard_size), Log()});
  });
  return 0;
}

}  // namespace

const OptionTable<A>& export_options(bool needs_adapter) {
  static const OptionTable<A> with = make_table(true), without = make_table(false);
  return needs_adapter ? with : without;
}

std::optional<at::ScalarType> dtype_of(const A& arguments) {
  if (arguments.export_dtype == "float32") return at::kFloat;
  if (arguments.export_dtype == "float16") return at::kHalf;
  if (arguments.export_dtype == "bfloat16") return at::kBFloat16;
  return std::nullopt;
}

const Command merge_command{
    "merge",
    "Add an adapter into its base and write a Hugging Face folder.",
    "model_name_or_path=… adapter_name_or_path=… export_dir=… [key=value …]",
    run_merge,
    [](int columns) { return export_options(true).help(columns); },
    [] { return export_options(true).json_schema("duoka merge"); },
    [] { return export_options(true).markdown(); },
};

const Command export_command{
    "export",
    "Write a model (a .gguf file, say) as a Hugging Face folder.",
    "model_name_or_path=… export_dir=… [key=value …]",
    run_export,
    [](int columns) { return export_options(false).help(columns); },
    [] { return export_options(false).json_schema("duoka export"); },
    [] { return export_options(false).markdown(); },
};

}  // namespace duoka::cli
