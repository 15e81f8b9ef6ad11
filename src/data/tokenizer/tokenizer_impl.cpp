// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/tokenizer_impl.h"

#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "data/tokenizer/bpe_read.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

/// Part of every fingerprint. Raise it when a change of this code gives other ids for the same file.
constexpr uint64_t rules_version = 1;

const io::Json* member(const io::Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

const io::Json& require_tokenizer(const TokenizerSource& source) {
  if (source.json.is_object() && source.json.contains("model")) return source.json;
  throw FormatError(
      text(source.origin, ": no \"model\"; wanted a tokenizer.json of Hugging Face's tokenizers"));
}

}  // namespace

std::unique_ptr<EncodeState> StatePool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto state = std::move(free_.back());
      free_.pop_back();
      return state;
    }
  }
  return std::make_unique<EncodeState>();
}

void StatePool::give_back(std::unique_ptr<EncodeState> state) noexcept {
  constexpr size_t usual_pieces = size_t{1} << 16;
  state->bpe.shrink();
  if (state->pieces.capacity() > usual_pieces) std::vector<TextPiece>().swap(state->pieces);
  if (state->spare.capacity() > usual_pieces) std::vector<TextPiece>().swap(state->spare);
  const std::lock_guard lock(mutex_);
  try {
    free_.push_back(std::move(state));
  } catch (const std::bad_alloc&) {
    // Without room to remember it the state is only lost.
  }
}

Tokenizer::Impl::Impl(TokenizerSource source)
    : tokenizer_text(std::move(source.text)),
      config(source.config),
      chat_template(std::move(source.chat_template)),
      normalizer(make_normalizer(member(require_tokenizer(source), "normalizer"), source.origin)),
      pre_tokenizer(member(source.json, "pre_tokenizer"), source.origin),
      decoder(member(source.json, "decoder"), source.origin) {
  read_model(source.json, source.origin);
  tokens = read_token_list(source, vocabulary);
  index_added_tokens();
  read_surround(source.json, source.origin);
  take_fingerprint();
}

void Tokenizer::Impl::read_model(const io::Json& json, const std::string& origin) {
  const io::Json& model = io::require_object(json, "model", origin);
  bpe.emplace(read_bpe(model, pre_tokenizer.is_byte_level(), vocabulary, origin), vocabulary);
}

void Tokenizer::Impl::index_added_tokens() {
  is_special.assign(static_cast<size_t>(vocabulary.size()), false);
  MatchState state;
  for (const AddedToken& token : tokens.added) {
    if (token.is_special) is_special[static_cast<size_t>(token.id)] = true;
    if (!token.is_normalized) {
      raw_tokens.add(token.content, token);
      continue;
    }
    AlignedText pattern(token.content);
    if (normalizer) normalizer->apply(pattern, state);
    normalized_tokens.add(pattern.view(), token);
  }
  bpe->set_controls(is_special);
}

void Tokenizer::Impl::read_surround(const io::Json& json, const std::string& origin) {
  around = read_post_processor(member(json, "post_processor"), vocabulary.size(), origin);
  // As transformers does: a config that speaks of BOS or EOS decides, whatever the post-processor says.
  const auto adds_bos = io::optional_bool(config, "add_bos_token", origin);
  const auto adds_eos = io::optional_bool(config, "add_eos_token", origin);
  if (!adds_bos && !adds_eos) return;
  around = {};
  if (adds_bos.value_or(false) && tokens.bos.id) around.before.push_back(*tokens.bos.id);
  if (adds_eos.value_or(false) && tokens.eos.id) around.behind.push_back(*tokens.eos.id);
}

void Tokenizer::Impl::take_fingerprint() {
  std::string rest;
  const auto add = [&](int64_t number) { rest.append(std::to_string(number)).push_back(' '); };
  for (const int32_t id : around.before) add(id);
  rest.push_back('|');
  for (const int32_t id : around.behind) add(id);
  for (const AddedToken& token : tokens.added) {
    add(token.id);
    add(token.is_special << 4 | token.is_normalized << 3 | token.is_single_word << 2 |
        token.strips_left << 1 | static_cast<int>(token.strips_right));
    add(static_cast<int64_t>(token.content.size()));
    rest.append(token.content);
  }
  fingerprint =
      XXH64(rest.data(), rest.size(), XXH64(tokenizer_text.data(), tokenizer_text.size(), rules_version));
}

}  // namespace duoka::data
