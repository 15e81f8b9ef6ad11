// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "duoka/cli/generate_arguments.h"
#include "duoka/core/log.h"
#include "duoka/data/chat_template.h"
#include "duoka/data/tokenizer.h"
#include "duoka/model/decoder.h"

namespace duoka::cli {

/// A model that answers: decoder, tokenizer, template and the rule for stopping.
class Speaker {
 public:
  /// Loads what `arguments` name. Throws ConfigError, FormatError.
  Speaker(const GenerateArguments& arguments, const Log& log);

  /// Ids of a conversation that waits for the assistant. Throws ConfigError when the model has no template.
  std::vector<int64_t> prompt_ids(const data::Conversation& conversation) const;
  /// Ids of plain text to go on with.
  std::vector<int64_t> text_ids(const std::string& text) const;

  /// The reply to `prompt`; `on_text` gets it in pieces of whole characters as it comes, and ends it by
  /// returning false. Control tokens are never part of it.
  std::string reply(const std::vector<int64_t>& prompt,
                    const std::function<bool(const std::string&)>& on_text);

 private:
  GenerateArguments arguments_;
  data::Tokenizer tokenizer_;
  std::optional<data::ChatTemplate> template_;
  model::Decoder decoder_;
  std::vector<int64_t> stop_ids_;
  int64_t num_replies_ = 0;
};

}  // namespace duoka::cli
