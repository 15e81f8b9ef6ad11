// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/source.h"
#include "data/tokenizer/vocabulary.h"

namespace duoka::data {

/// A token with a role of its own: its text as the files give it, and its id where the vocabulary has it.
struct Role {
  std::string token;
  std::optional<int32_t> id;
};

/// Tokens beside the model's own, from tokenizer.json and tokenizer_config.json.
struct TokenList {
  std::vector<AddedToken> added;
  Role bos;
  Role eos;
  Role pad;
};

/// Reads them and adds new ones to `vocabulary`. A token that the config gives a role is a control token
/// even if tokenizer.json does not list it; a role for a text without an id stays without one.
TokenList read_token_list(const TokenizerSource& source, Vocabulary& vocabulary);

}  // namespace duoka::data
