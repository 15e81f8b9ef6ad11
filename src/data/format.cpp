// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/format.h"

#include <utility>

#include "data/json_row.h"
#include "data/turns.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

namespace {

std::string or_usual(const std::string& given, const char* usual) { return given.empty() ? usual : given; }

/// The text of an optional column: "" where it is missing or null.
std::string optional_text(const JsonObject& row, const std::string& key) {
  const auto found = find(row, key);
  return found && !is_null(*found) ? text_of(*found) : std::string();
}

void add_turn(Conversation& conversation, std::string role, std::string content) {
  Message& message = conversation.messages.emplace_back();
  message.role = std::move(role);
  message.content = std::move(content);
}

void add_system(const JsonObject& row, const RowFormat& format, Conversation& conversation) {
  std::string system = optional_text(row, or_usual(format.system, "system"));
  if (!system.empty()) add_turn(conversation, "system", std::move(system));
}

/// Alpaca's history: [[question, answer], …], the oldest first.
void add_history(const JsonObject& row, const RowFormat& format, Conversation& conversation) {
  const auto history = find(row, or_usual(format.history, "history"));
  if (!history || is_null(*history)) return;
  for (const JsonValue item : array_of(*history)) {
    const JsonArray pair = array_of({item, "an entry of " + history->where});
    if (pair.size() != 2)
      throw DataError(text("an entry of ", history->where, ": found ",
                           counted(static_cast<int64_t>(pair.size()), "value"), ", wanted 2"));
    add_turn(conversation, "user", text_of({pair.at(0).value(), "a question in " + history->where}));
    add_turn(conversation, "assistant", text_of({pair.at(1).value(), "an answer in " + history->where}));
  }
}

Conversation read_alpaca(const JsonObject& row, const RowFormat& format) {
  Conversation conversation;
  add_system(row, format, conversation);
  add_history(row, format, conversation);
  std::string prompt = text_of(need(row, or_usual(format.prompt, "instruction")));
  const std::string query = optional_text(row, or_usual(format.query, "input"));
  if (!prompt.empty() && !query.empty()) prompt += '\n';
  add_turn(conversation, "user", prompt + query);
  add_turn(conversation, "assistant", text_of(need(row, or_usual(format.response, "output"))));
  return conversation;
}

Conversation read_list(const JsonObject& row, const RowFormat& format, const std::string& key) {
  Conversation conversation;
  add_system(row, format, conversation);
  std::vector<Message> turns = read_turns(need(row, key), format);
  if (!conversation.messages.empty() && !turns.empty() && turns.front().role == "system")
    throw DataError("a system text both beside the turns and as the first turn");
  for (Message& turn : turns) conversation.messages.push_back(std::move(turn));
  if (const auto tools = find(row, or_usual(format.tools, "tools")))
    conversation.tools_json = read_tools(*tools);
  return conversation;
}

/// prompt or completion: a text is one turn of `role`, a list is its turns.
void add_side(const Located& side, const RowFormat& format, const char* role, Conversation& conversation) {
  if (side.value.is_array())
    for (Message& turn : read_turns(side, format)) conversation.messages.push_back(std::move(turn));
  else
    add_turn(conversation, role, text_of(side));
}

Conversation read_prompt_completion(const JsonObject& row, const RowFormat& format) {
  Conversation conversation;
  add_system(row, format, conversation);
  add_side(need(row, or_usual(format.prompt, "prompt")), format, "user", conversation);
  // What is in the prompt is context, answers of earlier turns included.
  for (Message& turn : conversation.messages) turn.is_trained = false;
  add_side(need(row, or_usual(format.response, "completion")), format, "assistant", conversation);
  return conversation;
}

RowShape detected(const JsonObject& row, Stage stage) {
  if (has(row, "chosen") || has(row, "rejected"))
    throw DataError("a preference pair (keys 'chosen', 'rejected'): there is no preference training here");
  if (stage == Stage::pt && has(row, "text")) return RowShape::text;
  if (has(row, "messages")) return RowShape::openai;
  if (has(row, "conversations")) return RowShape::sharegpt;
  if (has(row, "instruction")) return RowShape::alpaca;
  if (has(row, "prompt") && has(row, "completion")) return RowShape::prompt_completion;
  if (has(row, "text")) return RowShape::text;
  throw DataError(
      text("no known form: found keys ", keys_of(row),
           "; wanted messages, conversations, instruction + output, prompt + completion or text"));
}

std::string read_text(const JsonObject& row, const RowFormat& format, RowShape shape) {
  std::string key;
  if (shape == RowShape::text) key = or_usual(format.prompt, "text");
  // LLaMA-Factory's way to name the column of a text: formatting alpaca, prompt: <column>.
  if (shape == RowShape::alpaca && format.shape == RowShape::alpaca)
    key = or_usual(format.prompt, "instruction");
  if (key.empty())
    throw DataError(text("stage pt wants a text under the key 'text'; found keys ", keys_of(row)));
  std::string content = text_of(need(row, key));
  if (content.empty()) throw DataError(text("key '", key, "': an empty text"));
  return content;
}

Conversation read_conversation(const JsonObject& row, const RowFormat& format, RowShape shape) {
  switch (shape) {
    case RowShape::alpaca:
      return read_alpaca(row, format);
    case RowShape::sharegpt:
      return read_list(row, format, or_usual(format.messages, "conversations"));
    case RowShape::openai:
      return read_list(row, format, or_usual(format.messages, "messages"));
    case RowShape::prompt_completion:
      return read_prompt_completion(row, format);
    case RowShape::text:
    case RowShape::detect:
      break;
  }
  throw DataError(
      "a row of plain text (key 'text'); stage sft wants conversations, plain text is for stage pt");
}

}  // namespace

std::string_view shape_name(RowShape shape) {
  switch (shape) {
    case RowShape::detect:
      return "detect";
    case RowShape::alpaca:
      return "alpaca";
    case RowShape::sharegpt:
      return "sharegpt";
    case RowShape::openai:
      return "openai";
    case RowShape::prompt_completion:
      return "prompt_completion";
    case RowShape::text:
      break;
  }
  return "text";
}

std::string RowFormat::identity() const {
  std::string identity(shape_name(shape));
  for (const std::string* field : {&prompt, &query, &response, &history, &system, &messages, &tools,
                                   &role_tag, &content_tag, &user_tag, &assistant_tag, &system_tag})
    identity += ";" + json_quoted(*field);
  return identity;
}

class RowReader::Impl {
 public:
  Impl(RowFormat format, Stage stage) : format_(std::move(format)), stage_(stage) {}

  RowContent read(std::string_view json) {
    const JsonObject row = parser_.parse(json);
    const RowShape shape = format_.shape == RowShape::detect ? detected(row, stage_) : format_.shape;
    if (stage_ == Stage::pt) return read_text(row, format_, shape);
    Conversation conversation = read_conversation(row, format_, shape);
    check_turns(conversation.messages);
    return conversation;
  }

 private:
  JsonRowParser parser_;
  RowFormat format_;
  Stage stage_;
};

RowReader::RowReader(RowFormat format, Stage stage)
    : impl_(std::make_unique<Impl>(std::move(format), stage)) {}
RowReader::~RowReader() = default;
RowReader::RowReader(RowReader&&) noexcept = default;
RowReader& RowReader::operator=(RowReader&&) noexcept = default;

RowContent RowReader::read(std::string_view json) { return impl_->read(json); }

}  // namespace duoka::data
