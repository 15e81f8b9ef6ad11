// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "duoka/data/conversation.h"

namespace duoka::data {

/// What rows are for.
enum class Stage {
  sft,  ///< Conversations; answers are trained.
  pt,   ///< Plain text; all of it is trained.
};

/// How a row says what it says.
enum class RowShape {
  detect,             ///< By the row's keys, row by row.
  alpaca,             ///< instruction, input, output; optional system, history.
  sharegpt,           ///< conversations: [{from, value}, …]; optional system, tools.
  openai,             ///< messages: [{role, content}, …]; optional tools.
  prompt_completion,  ///< prompt, completion: texts, or lists of OpenAI messages.
  text,               ///< text.
};

/// "alpaca", …
std::string_view shape_name(RowShape shape);

/// Names of keys and roles in a data file. Names as in LLaMA-Factory's dataset_info.json. "" in a
/// column: the shape's usual name.
struct RowFormat {
  RowShape shape = RowShape::detect;
  // Columns.
  std::string prompt, query, response, history, system, messages, tools;
  // Tags: the keys of a turn and the words for roles.
  std::string role_tag, content_tag, user_tag, assistant_tag, system_tag;

  /// All that decides how a row is read, as one text; part of the token cache's key.
  std::string identity() const;
};

/// What a row says: a conversation (Stage::sft) or a text (Stage::pt).
using RowContent = std::variant<Conversation, std::string>;

/// Reads rows of one file. Holds the parser's memory and uses it again for each row; one thread at a time.
///
/// JSON is read strictly. A row larger than 256 MiB or nested deeper than 512 is refused. Keys that no shape
/// knows are passed over. Where a key that is used occurs twice the row is refused.
class RowReader {
 public:
  RowReader(RowFormat format, Stage stage);
  ~RowReader();
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) noexcept;

  /// `json`: one row of a JSON file. Throws DataError with the reason, without file and line ("key
  /// 'output': found number, wanted string"); the caller knows where the row lies.
  ///
  /// Roles: human and user, gpt and assistant mean the same; the order of turns is free, an opening
  /// assistant turn and a closing user turn included. Refused by name: unknown roles, ShareGPT's tool
  /// roles, preference pairs (chosen/rejected), content parts that are not text, a conversation without
  /// assistant turn, null where text is wanted.
  RowContent read(std::string_view json);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duoka::data
