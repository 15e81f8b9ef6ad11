// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/post_processor.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/token_list.h"
#include "duoka/data/tokenizer.h"

namespace duoka::data {

/// What one call of encode() works with; kept for the next call, for its cache and its memory.
struct EncodeState {
  MatchState match;
  BpeState bpe;
  std::vector<TextPiece> pieces;
  std::vector<TextPiece> spare;
};

/// Lends states to threads: as many as ever encode at once.
class StatePool {
 public:
  class Lease {
   public:
    explicit Lease(StatePool& pool) : pool_(pool), state_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(state_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    EncodeState& operator*() const { return *state_; }

   private:
    StatePool& pool_;
    std::unique_ptr<EncodeState> state_;
  };

 private:
  std::unique_ptr<EncodeState> take();
  void give_back(std::unique_ptr<EncodeState> state) noexcept;

  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeState>> free_;
};

struct Tokenizer::Impl {
  explicit Impl(TokenizerSource source);

  std::string tokenizer_text;  ///< tokenizer.json, as loaded.
  io::Json config;             ///< tokenizer_config.json, as loaded.
  std::optional<std::string> chat_template;

  Vocabulary vocabulary;
  std::unique_ptr<const Normalizer> normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<Bpe> bpe;
  Decoder decoder;
  TokenList tokens;
  TokenFinder raw_tokens;         ///< Looked for in the text as given.
  TokenFinder normalized_tokens;  ///< Looked for in the normalised text.
  std::vector<bool> is_special;   ///< By id.
  Surround around;
  uint64_t fingerprint = 0;
  mutable StatePool states;

 private:
  void read_model(const io::Json& json, const std::string& origin);
  void index_added_tokens();
  void read_surround(const io::Json& json, const std::string& origin);
  void take_fingerprint();
};

}  // namespace duoka::data
