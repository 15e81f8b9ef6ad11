// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "data/tokenizer/source.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

enum class GgufTokenType : int64_t { control = 3, user_defined = 4 };

struct GgufTokens {
  std::vector<std::string_view> texts;
  std::vector<int64_t> types;
};

GgufTokens read_tokens(const io::GgufFile& file, const std::string& origin) {
  GgufTokens tokens{file.strings("tokenizer.ggml.tokens"), file.ints("tokenizer.ggml.token_type")};
  if (tokens.texts.empty()) throw FormatError(text(origin, ": tokenizer.ggml.tokens is missing or empty"));
  if (!tokens.types.empty() && tokens.types.size() != tokens.texts.size()) {
    throw FormatError(
        text(origin, ": ", tokens.types.size(), " token types for ", tokens.texts.size(), " tokens"));
  }
  return tokens;
}

/// Appends without looking for the key, which in an ordered object is a walk. Double keys are found later.
void append(io::Json& object, std::string_view key, io::Json value) {
  object.get_ref<io::Json::object_t&>().emplace_back(std::string(key), std::move(value));
}

io::Json make_vocab(const GgufTokens& tokens) {
  io::Json vocab = io::Json::object();
  for (size_t id = 0; id < tokens.texts.size(); ++id) append(vocab, tokens.texts[id], id);
  return vocab;
}

/// "a b", where a may begin with a space itself.
io::Json make_merges(const io::GgufFile& file, const std::string& origin) {
  io::Json merges = io::Json::array();
  for (const std::string_view merge : file.strings("tokenizer.ggml.merges")) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      throw FormatError(text(origin, ": merge ", merges.size(), " is \"", merge, "\"; wanted two tokens"));
    }
    merges.push_back({std::string(merge.substr(0, space)), std::string(merge.substr(space + 1))});
  }
  if (merges.empty()) throw FormatError(text(origin, ": tokenizer.ggml.merges is missing or empty"));
  return merges;
}

io::Json make_added_tokens(const GgufTokens& tokens) {
  io::Json added = io::Json::array();
  for (size_t id = 0; id < tokens.types.size(); ++id) {
    const auto type = static_cast<GgufTokenType>(tokens.types[id]);
    if (type != GgufTokenType::control && type != GgufTokenType::user_defined) continue;
    added.push_back({{"id", id},
                     {"content", std::string(tokens.texts[id])},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type == GgufTokenType::control}});
  }
  return added;
}

std::optional<std::string> role_token(const io::GgufFile& file, const char* key, const GgufTokens& tokens,
                                      const std::string& origin) {
  const auto id = file.optional_int(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id >= static_cast<int64_t>(tokens.texts.size())) {
    throw FormatError(text(origin, ": ", key, " is ", *id, "; wanted 0 to ", tokens.texts.size() - 1));
  }
  return std::string(tokens.texts[static_cast<size_t>(*id)]);
}

io::Json make_config(const io::GgufFile& file, const GgufTokens& tokens, const std::string& origin) {
  constexpr std::array keys = {std::pair("bos_token", "tokenizer.ggml.bos_token_id"),
                               std::pair("eos_token", "tokenizer.ggml.eos_token_id"),
                               std::pair("pad_token", "tokenizer.ggml.padding_token_id")};
  io::Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [role, key] : keys) {
    if (const auto token = role_token(file, key, tokens, origin)) config[role] = *token;
  }
  return config;
}

/// BOS in front and EOS behind, as the file wishes.
io::Json make_post_processor(const io::GgufFile& file, const io::Json& config, bool adds_bos,
                             const GgufTokens& tokens) {
  io::Json single = io::Json::array();
  io::Json special = io::Json::object();
  const auto add = [&](const char* role, const char* key) {
    if (!config.contains(role)) return;
    const std::string token = config[role].get<std::string>();
    const int64_t id = file.require_int(key);
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {
        {"id", token}, {"ids", {id}}, {"tokens", {std::string(tokens.texts[static_cast<size_t>(id)])}}};
  };
  if (file.optional_bool("tokenizer.ggml.add_bos_token").value_or(adds_bos)) {
    add("bos_token", "tokenizer.ggml.bos_token_id");
  }
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (file.optional_bool("tokenizer.ggml.add_eos_token").value_or(false)) {
    add("eos_token", "tokenizer.ggml.eos_token_id");
  }
  io::Json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

}  // namespace

TokenizerSource read_gguf_source(const io::GgufFile& file) {
  TokenizerSource source;
  source.origin = file.path().string();
  const std::string_view kind = file.require_string("tokenizer.ggml.model");
  if (kind != "gpt2") {
    throw FormatError(
        text(source.origin, ": tokenizer.ggml.model \"", kind,
             "\" is not supported, only \"gpt2\" (byte-level BPE); use the model's Hugging Face "
             "folder with its tokenizer.json instead"));
  }
  const GgufTokens tokens = read_tokens(file, source.origin);
  const GgufPre pre = gguf_pre(file.optional_string("tokenizer.ggml.pre").value_or("default"), source.origin);
  source.config = make_config(file, tokens, source.origin);
  const auto chat_template = file.optional_string("tokenizer.chat_template");
  if (chat_template) source.chat_template = std::string(*chat_template);
  source.json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", make_added_tokens(tokens)},
      {"normalizer", pre.normalizer},
      {"pre_tokenizer", pre.pre_tokenizer},
      {"post_processor", make_post_processor(file, source.config, pre.adds_bos, tokens)},
      {"decoder",
       {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", pre.ignores_merges},
        {"vocab", make_vocab(tokens)},
        {"merges", make_merges(file, source.origin)}}}};
  source.text = source.json.dump();
  return source;
}

}  // namespace duoka::data
