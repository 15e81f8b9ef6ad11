// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace duoka::data {

/// One turn of a conversation.
struct Message {
  /// "system", "user", "assistant", "tool", … A plain word (letters, digits, '_', '-', '.', ' '): templates
  /// build control tokens around it, so anything else is refused when rendering.
  std::string role;
  std::string content;  ///< UTF-8.
  /// Only matters for assistant turns: false keeps the turn in the context but out of the labels.
  bool is_trained = true;
  /// True where the data has `content: null` (a turn that only calls tools); `content` is then empty. To a
  /// template's conditions such content is none, where it is printed or joined it is empty text. The word
  /// "None" never comes out of it.
  bool is_null = false;
  /// The turn's other fields (tool_calls, name, tool_call_id, reasoning_content, …) as the text of a JSON
  /// object, or "" for none. Fields that are null are left out, as transformers does.
  std::string fields_json = {};
};

/// What a template renders.
struct Conversation {
  std::vector<Message> messages;
  std::string tools_json = {};  ///< Text of a JSON array of tool descriptions, or "" for none.
};

}  // namespace duoka::data
