// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/token_list.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

AddedToken read_added_token(const io::Json& json, int64_t id, const std::string& origin) {
  AddedToken token;
  token.id = static_cast<int32_t>(id);
  token.content = io::require_string(json, "content", origin);
  token.is_special = io::optional_bool(json, "special", origin).value_or(false);
  token.is_normalized = io::optional_bool(json, "normalized", origin).value_or(!token.is_special);
  token.is_single_word = io::optional_bool(json, "single_word", origin).value_or(false);
  token.strips_left = io::optional_bool(json, "lstrip", origin).value_or(false);
  token.strips_right = io::optional_bool(json, "rstrip", origin).value_or(false);
  return token;
}

class Reader {
 public:
  Reader(const TokenizerSource& source, Vocabulary& vocabulary) : source_(source), vocabulary_(vocabulary) {}

  TokenList run() {
    read_listed();
    read_configured();
    list_.bos = role("bos_token");
    list_.eos = role("eos_token");
    list_.pad = role("pad_token");
    role("unk_token");
    mark_extra("additional_special_tokens");
    mark_extra("extra_special_tokens");
    return std::move(list_);
  }

 private:
  void read_listed() {
    const io::Json* tokens = io::optional_array(source_.json, "added_tokens", source_.origin);
    if (tokens == nullptr) return;
    num_entries_ = static_cast<size_t>(vocabulary_.size()) + tokens->size();
    for (const io::Json& json : *tokens) add(json, io::require_int(json, "id", source_.origin));
  }

  /// "added_tokens_decoder" of the config: what tokenizer.json lacks of it is added.
  void read_configured() {
    const io::Json* tokens = io::optional_object(source_.config, "added_tokens_decoder", source_.origin);
    if (tokens == nullptr) return;
    num_entries_ = static_cast<size_t>(vocabulary_.size()) + tokens->size();
    for (const auto& [key, json] : tokens->items()) {
      int64_t id = -1;
      std::from_chars(key.data(), key.data() + key.size(), id);
      if (find(io::require_string(json, "content", source_.origin)) == nullptr) add(json, id);
    }
  }

  void add(const io::Json& json, int64_t id) {
    AddedToken token = read_added_token(json, id, source_.origin);
    if (token.content.empty()) return;
    vocabulary_.add(token.content, id, num_entries_, source_.origin);
    list_.added.push_back(std::move(token));
  }

  AddedToken* find(std::string_view content) {
    const auto found = std::find_if(list_.added.begin(), list_.added.end(),
                                    [&](const AddedToken& token) { return token.content == content; });
    return found == list_.added.end() ? nullptr : &*found;
  }

  /// A token with a role is a control token, listed or not.
  void mark_special(const std::string& content) {
    if (AddedToken* token = find(content)) {
      token->is_special = true;
    } else if (const auto id = vocabulary_.find(content)) {
      AddedToken fresh;
      fresh.id = *id;
      fresh.content = content;
      fresh.is_special = true;
      list_.added.push_back(std::move(fresh));
    }
  }

  /// A token is written as its text or as {"content": text, …}.
  static std::string content_of(const io::Json& json) {
    if (json.is_string()) return json.get<std::string>();
    if (json.is_object() && json.contains("content") && json["content"].is_string()) {
      return json["content"].get<std::string>();
    }
    return {};
  }

  Role role(const char* name) {
    const auto found = source_.config.find(name);
    if (found == source_.config.end()) return {};
    Role role{content_of(*found), std::nullopt};
    if (role.token.empty()) return role;
    role.id = vocabulary_.find(role.token);
    mark_special(role.token);
    return role;
  }

  void mark_extra(const char* name) {
    const auto found = source_.config.find(name);
    if (found == source_.config.end() || !(found->is_array() || found->is_object())) return;
    for (const io::Json& token : *found) {
      const std::string content = content_of(token);
      if (!content.empty()) mark_special(content);
    }
  }

  const TokenizerSource& source_;
  Vocabulary& vocabulary_;
  size_t num_entries_ = 0;
  TokenList list_;
};

}  // namespace

TokenList read_token_list(const TokenizerSource& source, Vocabulary& vocabulary) {
  return Reader(source, vocabulary).run();
}

}  // namespace duoka::data
