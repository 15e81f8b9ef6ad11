// SPDX-License-Identifier: Apache-2.0
#include "cli/model_files.h"

#include <set>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/data/render.h"
#include "duoka/io/gguf.h"
#include "duoka/tune/peft_files.h"

namespace duoka::cli {

namespace {
constexpr int64_t max_template_bytes = 4 << 20;
}

data::Tokenizer open_tokenizer(const std::filesystem::path& model) {
  if (model::is_gguf(model)) return data::Tokenizer::from_gguf(io::GgufFile::open(model));
  return data::Tokenizer::from_folder(model);
}

std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& model) {
  if (model::is_gguf(model)) return {model};
  return data::Tokenizer::files_of_folder(model);
}

bool is_template_file(const std::string& name) {
  return name.ends_with(".jinja") || name.ends_with(".jinja2");
}

std::optional<data::ChatTemplate> open_template(const std::string& name, const data::Tokenizer& tokenizer,
                                                const std::filesystem::path& model) {
  if (is_template_file(name))
    return data::ChatTemplate::parse(read_text_file(name, max_template_bytes), name);
  if (std::filesystem::exists(name) && name != "auto")
    throw ConfigError(
        text("template: '", name, "' is no .jinja file; wanted auto or a file whose name ends in .jinja"));
  if (name.find('/') != std::string::npos)
    throw ConfigError(text("template: there is no file '", name, "'", looked_in(name)));
  const auto own = tokenizer.chat_template();
  if (!own && name != "auto")
    throw ConfigError(text("template: '", name, "' is not known and ", model.string(),
                           " carries no chat template; give a .jinja file"));
  if (!own) return std::nullopt;
  return data::ChatTemplate::parse(*own, model.string() + " (chat template)");
}

void warn_template(const std::string& name, const std::filesystem::path& model, const Log& log) {
  if (name == "auto" || is_template_file(name) || log.rank() != 0) return;
  log.warning(text("template: '", name, "' is no .jinja file; using the chat template that ", model.string(),
                   " carries"));
}

void attach_adapter(model::Decoder& decoder, const std::string& adapter, const std::string& model,
                    const Log& log) {
  if (adapter.empty()) return;
  const tune::PeftAdapter read = tune::read_peft_adapter(adapter, decoder.config());
  if (const auto warning = tune::other_base_warning(read, model); !warning.empty() && log.rank() == 0)
    log.warning(warning);
  tune::apply_adapter(decoder, read, false);
}

std::vector<int64_t> stop_ids(const std::optional<data::ChatTemplate>& chat_template,
                              const data::Tokenizer& tokenizer, const model::ModelConfig& config) {
  std::set<int64_t> ids(config.eos_ids.begin(), config.eos_ids.end());
  if (tokenizer.eos_id()) ids.insert(*tokenizer.eos_id());
  if (chat_template)
    for (const int32_t id : data::turn_end_ids(*chat_template, tokenizer)) ids.insert(id);
  return {ids.begin(), ids.end()};
}

void check_model_path(const std::string& path, const char* key) {
  if (std::filesystem::is_directory(path)) {
    if (std::filesystem::exists(std::filesystem::path(path) / "config.json")) return;
    throw ConfigError(
        text(key, ": the folder '", path, "' has no config.json; wanted a Hugging Face folder"));
  }
  if (model::is_gguf(path)) return;
  if (!std::filesystem::exists(path))
    throw ConfigError(text(key, ": there is nothing at '", path, "'", looked_in(path),
                           "; wanted a Hugging Face folder or a .gguf file"));
  throw ConfigError(text(key, ": '", path, "' is neither a folder nor a .gguf file"));
}

}  // namespace duoka::cli
