// SPDX-License-Identifier: Apache-2.0
#include "data/turns.h"

#include <algorithm>
#include <array>
#include <utility>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

namespace {

/// The keys of a turn, and whether turns may carry tool calls (OpenAI's do).
struct TurnKeys {
  std::string role;
  std::string content;
  bool has_tools = false;
};

TurnKeys turn_keys(const JsonArray& list, const RowFormat& format) {
  TurnKeys keys{"role", "content", true};
  if (format.shape == RowShape::sharegpt) {
    keys = {"from", "value", false};
  } else if (format.shape != RowShape::openai && list.size() > 0) {
    JsonObject first;
    if (list.at(0).get(first) == simdjson::SUCCESS && has(first, "from")) keys = {"from", "value", false};
  }
  if (!format.role_tag.empty()) keys.role = format.role_tag;
  if (!format.content_tag.empty()) keys.content = format.content_tag;
  return keys;
}

[[noreturn]] void refuse_role(const std::string& role, const std::string& where) {
  static const std::vector<std::string> known = {"system", "user", "assistant", "human", "gpt"};
  static constexpr std::array tool_roles = {"tool", "function", "function_call", "observation", "tool_call"};
  if (std::find(tool_roles.begin(), tool_roles.end(), role) != tool_roles.end())
    throw DataError(text(where, ": role '", role, "' (tool use) is only read in OpenAI messages, as 'tool'"));
  const std::string near = nearest(role, known);
  throw DataError(text(where, ": unknown role '", role, "'; wanted system, human/user or gpt/assistant",
                       near.empty() ? "" : "; nearest is '" + near + "'"));
}

/// The role as templates know it.
std::string role_name(const std::string& word, const RowFormat& format, const TurnKeys& keys,
                      const std::string& where) {
  if (!word.empty()) {
    if (word == format.user_tag) return "user";
    if (word == format.assistant_tag) return "assistant";
    if (word == format.system_tag) return "system";
  }
  if (word == "user" || word == "human") return "user";
  if (word == "assistant" || word == "gpt") return "assistant";
  // "developer" is OpenAI's later name for system; templates know the older one.
  if (word == "system" || word == "developer") return "system";
  if (word == "tool" && keys.has_tools) return "tool";
  refuse_role(word, where);
}

/// Content given as parts, joined. Only parts of text.
std::string joined_parts(const Located& content, const std::string& of) {
  std::string joined;
  for (const JsonValue part : array_of(content)) {
    const JsonObject object = object_of({part, "a content part" + of});
    const std::string type = text_of(need(object, "type", " of a content part" + of));
    if (type != "text")
      throw DataError(text("a content part", of, " has type '", type, "'; only 'text' is read"));
    joined += text_of(need(object, "text", " of a content part" + of));
  }
  return joined;
}

/// The turn's keys beside role and content, as the text of an object; "" when there are none. Nulls are
/// left out: to a template, absent.
std::string other_fields(const JsonObject& turn, const TurnKeys& keys) {
  std::string fields;
  for (const auto field : turn) {
    if (field.key == keys.role || field.key == keys.content || field.key == "weight" || field.value.is_null())
      continue;
    fields += (fields.empty() ? "{" : ",") + json_quoted(field.key) + ":" + json_of(field.value);
  }
  return fields.empty() ? fields : fields + "}";
}

/// OpenAI's `weight`: 0 keeps an assistant turn out of the loss.
bool is_weighted(const JsonObject& turn, const std::string& of) {
  const auto weight = find(turn, "weight", of);
  if (!weight || is_null(*weight)) return true;
  double value = 0;
  if (weight->value.get(value)) refuse_type(*weight, "0 or 1");
  if (value != 0 && value != 1) throw DataError(text(weight->where, ": found ", value, ", wanted 0 or 1"));
  return value == 1;
}

bool has_calls(const JsonObject& turn, const std::string& of) {
  const auto calls = find(turn, "tool_calls", of);
  return calls && !is_null(*calls) && array_of(*calls).size() > 0;
}

void read_content(const JsonObject& turn, const TurnKeys& keys, const std::string& of, Message& message) {
  const auto content = find(turn, keys.content, of);
  if (!content || is_null(*content)) {
    if (keys.has_tools && message.role == "assistant" && has_calls(turn, of)) {
      message.is_null = true;
      return;
    }
    if (!content) throw DataError(text("key '", keys.content, "'", of, " is missing"));
    refuse_type(*content, "string");
  }
  message.content =
      keys.has_tools && content->value.is_array() ? joined_parts(*content, of) : text_of(*content);
}

Message read_turn(const JsonObject& turn, const TurnKeys& keys, const RowFormat& format,
                  const std::string& of) {
  Message message;
  const Located role = need(turn, keys.role, of);
  message.role = role_name(text_of(role), format, keys, role.where);
  read_content(turn, keys, of, message);
  if (keys.has_tools) {
    message.is_trained = is_weighted(turn, of);
    message.fields_json = other_fields(turn, keys);
  }
  return message;
}

}  // namespace

std::vector<Message> read_turns(const Located& list, const RowFormat& format) {
  const JsonArray array = array_of(list);
  const TurnKeys keys = turn_keys(array, format);
  std::vector<Message> turns;
  for (const JsonValue turn : array) {
    const std::string number = std::to_string(turns.size() + 1);
    turns.push_back(read_turn(object_of({turn, "turn " + number}), keys, format, " of turn " + number));
  }
  return turns;
}

std::string read_tools(const Located& tools) {
  if (is_null(tools)) return "";
  if (!tools.value.is_string()) return array_of(tools).size() == 0 ? "" : json_of(tools.value);
  std::string described = text_of(tools);
  const size_t first = described.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  if (described[first] != '[') throw DataError(tools.where + ": found a text that is no JSON array");
  return described;
}

void check_turns(const std::vector<Message>& turns) {
  if (turns.empty()) throw DataError("an empty conversation");
  const auto is_answer = [](const Message& turn) { return turn.role == "assistant" && turn.is_trained; };
  if (std::none_of(turns.begin(), turns.end(), is_answer))
    throw DataError("a conversation without an assistant turn to train on");
}

}  // namespace duoka::data
