// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "duoka/data/chat_template.h"
#include "duoka/data/conversation.h"

namespace duoka::data {

class Tokenizer;

/// A row as the model sees it. labels[i] is ids[i] where the token is trained, else -100 (Hugging Face's
/// convention, not shifted).
struct EncodedRow {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  /// What the user should know of this row (tool calls the template left out, a BOS typed into the text);
  /// mostly empty. Without file and line: the caller adds them.
  std::vector<std::string> warnings;
};

struct RenderOptions {
  bool train_on_prompt = false;  ///< Train every token but those of assistant turns with is_trained false.
  bool mask_history = false;     ///< Train the last assistant turn only. Not together with train_on_prompt.
  std::string extra_json = {};   ///< ChatTemplate::Variables::extra_json.
};

/// Renders and tokenises `conversation`.
///
/// Trained: the content of assistant turns plus the end of turn, which is what the template writes after
/// it up to and including its first control token. A turn with tool calls or reasoning is trained from
/// where the prompt before it ends. Where the template has {% generation %} marks, these decide instead.
/// A token is trained when any byte of it is. Spans follow from where pieces came from, never from a search.
/// BOS is there if the template writes it; the tokenizer's post-processor adds nothing, as in transformers'
/// apply_chat_template. A control token's name typed by a user is encoded as ordinary text.
/// Throws as ChatTemplate::render; ConfigError when both options are set.
EncodedRow render_row(const Conversation& conversation, const ChatTemplate& chat_template,
                      const Tokenizer& tokenizer, const RenderOptions& options = {});

/// Ids of the prompt that asks for the next assistant turn (add_generation_prompt).
std::vector<int32_t> render_prompt(const Conversation& conversation, const ChatTemplate& chat_template,
                                   const Tokenizer& tokenizer, const std::string& extra_json = {});

/// The ids that end an assistant turn, ascending: the control token the template writes after one (case
/// B03: often not EOS), and the tokenizer's EOS. Empty when there is neither.
/// Throws what rendering a small conversation throws.
std::vector<int32_t> turn_end_ids(const ChatTemplate& chat_template, const Tokenizer& tokenizer);

}  // namespace duoka::data
