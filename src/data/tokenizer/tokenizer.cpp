// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/tokenizer.h"

#include <nlohmann/json.hpp>

#include "data/tokenizer/source.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"

namespace duoka::data {

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_folder(const std::filesystem::path& folder) {
  return Tokenizer(std::make_unique<const Impl>(read_folder_source(folder)));
}

Tokenizer Tokenizer::from_json_file(const std::filesystem::path& path) {
  return Tokenizer(std::make_unique<const Impl>(read_json_source(path)));
}

Tokenizer Tokenizer::from_gguf(const io::GgufFile& file) {
  return Tokenizer(std::make_unique<const Impl>(read_gguf_source(file)));
}

std::string Tokenizer::decode_bytes(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (!impl_->vocabulary.has(id)) continue;
    if (skip_special_tokens && impl_->is_special[static_cast<size_t>(id)]) continue;
    tokens.emplace_back(impl_->vocabulary.text(id));
  }
  return tokens.empty() ? std::string() : impl_->decoder.decode(std::move(tokens), true);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  return lossy_utf8(decode_bytes(ids, skip_special_tokens));
}

std::string Tokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= impl_->vocabulary.size()) {
    throw StateError(text("token id ", id, "; wanted 0 to ", impl_->vocabulary.size() - 1));
  }
  if (!impl_->vocabulary.has(id)) return {};
  return impl_->decoder.decode({std::string(impl_->vocabulary.text(id))}, false);
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < impl_->is_special.size() &&
         impl_->is_special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  return impl_->vocabulary.find(token);
}
int64_t Tokenizer::vocab_size() const { return impl_->vocabulary.size(); }

std::optional<int32_t> Tokenizer::bos_id() const { return impl_->tokens.bos.id; }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->tokens.eos.id; }
std::optional<int32_t> Tokenizer::pad_id() const { return impl_->tokens.pad.id; }
std::string Tokenizer::bos_token() const { return impl_->tokens.bos.token; }
std::string Tokenizer::eos_token() const { return impl_->tokens.eos.token; }
std::string Tokenizer::pad_token() const { return impl_->tokens.pad.token; }

std::optional<std::string> Tokenizer::chat_template() const { return impl_->chat_template; }
uint64_t Tokenizer::fingerprint() const { return impl_->fingerprint; }

void Tokenizer::save(const std::filesystem::path& folder) const {
  io::Json config = impl_->config;
  if (!config.contains("tokenizer_class")) config["tokenizer_class"] = "PreTrainedTokenizerFast";
  // A folder may have kept it in a file of its own; here it is always inside.
  if (impl_->chat_template) config["chat_template"] = *impl_->chat_template;
  write_file_atomically(folder / "tokenizer.json", impl_->tokenizer_text);
  write_file_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace duoka::data
