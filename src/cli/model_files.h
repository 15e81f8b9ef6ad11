// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "duoka/core/log.h"
#include "duoka/data/chat_template.h"
#include "duoka/data/tokenizer.h"
#include "duoka/model/config.h"
#include "duoka/model/decoder.h"

namespace duoka::cli {

/// The tokenizer of a model: of a Hugging Face folder or of a .gguf file.
data::Tokenizer open_tokenizer(const std::filesystem::path& model);

/// The files that open_tokenizer() reads, there or not.
std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& model);

/// The chat template that `name` asks for: "auto" for the model's own (none when it has none), or a .jinja
/// file. Names of LLaMA-Factory's built-in templates mean the model's own, see warn_template().
/// Throws ConfigError when there is no such file.
std::optional<data::ChatTemplate> open_template(const std::string& name, const data::Tokenizer& tokenizer,
                                                const std::filesystem::path& model);
/// Whether `name` is that of a .jinja file.
bool is_template_file(const std::string& name);
/// Says once for all ranks that a template of that name was not looked for.
void warn_template(const std::string& name, const std::filesystem::path& model, const Log& log);

/// Puts the adapter of the folder `adapter` onto `decoder`, the model of `model`, to be used and not trained;
/// warns where the adapter names another base. Nothing when `adapter` is "".
void attach_adapter(model::Decoder& decoder, const std::string& adapter, const std::string& model,
                    const Log& log);

/// Ids that end a reply: the template's end of turn, the tokenizer's EOS, the model's own list.
std::vector<int64_t> stop_ids(const std::optional<data::ChatTemplate>& chat_template,
                              const data::Tokenizer& tokenizer, const model::ModelConfig& config);

/// Throws ConfigError unless `path` is a .gguf file or a folder; `key` is the option that named it.
void check_model_path(const std::string& path, const char* key);

}  // namespace duoka::cli
