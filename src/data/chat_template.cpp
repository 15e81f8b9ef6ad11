// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/chat_template.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

#include "data/jinja/ast.h"
#include "data/jinja/interpreter.h"
#include "data/jinja/session.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"

namespace duoka::data {
namespace {

using jinja::Mark;
using jinja::Text;
using jinja::Value;
using jinja::Values;
using Entries = std::vector<std::pair<Value, Value>>;

/// A JSON value as a template's, every string of it (keys too) carrying `mark`.
Value value_of(const io::Json& json, const Mark& mark) {
  switch (json.type()) {
    case io::Json::value_t::boolean:
      return json.get<bool>();
    case io::Json::value_t::number_integer:
      return json.get<int64_t>();
    case io::Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > INT64_MAX) return static_cast<double>(number);
      return static_cast<int64_t>(number);
    }
    case io::Json::value_t::number_float:
      return json.get<double>();
    case io::Json::value_t::string:
      return Text(json.get<std::string>(), mark);
    case io::Json::value_t::array: {
      Values items;
      for (const io::Json& item : json) items.push_back(value_of(item, mark));
      return make_list(std::move(items));
    }
    case io::Json::value_t::object: {
      Entries entries;
      for (const auto& [key, item] : json.items())
        entries.emplace_back(Text(key, mark), value_of(item, mark));
      return make_dict(std::move(entries));
    }
    default:
      return jinja::None{};
  }
}

bool is_role_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ' ' || static_cast<unsigned char>(c) >= 0x80;
}

void check_role(const std::string& role, size_t index) {
  if (!role.empty() && std::all_of(role.begin(), role.end(), is_role_char)) return;
  throw DataError(text("message ", index + 1, " has the role '", role,
                       "'; wanted a plain word such as system, user, assistant or tool"));
}

Words words_of_field(const std::string& name) {
  static constexpr std::string_view generated[] = {"tool_calls", "function_call", "reasoning_content",
                                                   "reasoning", "thinking"};
  const bool is_call = std::find(std::begin(generated), std::end(generated), name) != std::end(generated);
  return is_call ? Words::of_call : Words::of_field;
}

/// Templates read reasoning under one of several names; like transformers, offer it under the two that are
/// in use whatever name the data has.
void alias_reasoning(Entries& entries) {
  const auto find = [&](std::string_view name) {
    return std::find_if(entries.begin(), entries.end(),
                        [&](const auto& entry) { return entry.first.as_text()->view() == name; });
  };
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = find(name);
    if (found == entries.end()) continue;
    const Value reasoning = found->second;
    if (find("thinking") == entries.end()) entries.emplace(entries.begin(), Value("thinking"), reasoning);
    const auto standard = find("reasoning_content");
    if (standard != entries.end()) {
      standard->second = reasoning;
    } else {
      entries.emplace_back(Value("reasoning_content"), reasoning);
    }
    return;
  }
}

Value message_value(const Message& message, size_t index) {
  check_role(message.role, index);
  const auto number = static_cast<int32_t>(index);
  const Mark content_mark{number, Words::of_content, false};
  Entries entries;
  entries.emplace_back("role", message.role);
  if (message.is_null) {
    entries.emplace_back("content", jinja::None{std::make_shared<const Text>("", content_mark)});
  } else {
    entries.emplace_back("content", Text(message.content, content_mark));
  }
  if (!message.fields_json.empty()) {
    const io::Json fields = io::parse_json(message.fields_json, text("fields of message ", index + 1));
    if (!fields.is_object())
      throw DataError(text("the fields of message ", index + 1, " are no JSON object"));
    for (const auto& [name, field] : fields.items()) {
      if (field.is_null()) continue;
      const Mark mark{number, words_of_field(name), false};
      entries.emplace_back(Text(name, mark), value_of(field, mark));
    }
  }
  alias_reasoning(entries);
  return make_dict(std::move(entries));
}

Value messages_value(const Conversation& conversation) {
  Values messages;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    messages.push_back(message_value(conversation.messages[i], i));
  }
  return make_list(std::move(messages));
}

/// The names a template starts with, as transformers passes them. `extra` outlives the scope: names in it
/// are views.
void fill_scope(jinja::Scope& scope, const Conversation& conversation,
                const ChatTemplate::Variables& variables, const io::Json& extra) {
  const Mark caller_mark{-1, Words::of_caller, false};
  scope.set("messages", messages_value(conversation));
  Value tools = jinja::None{};
  if (!conversation.tools_json.empty())
    tools = value_of(io::parse_json(conversation.tools_json, "tools"), caller_mark);
  scope.set("tools", std::move(tools));
  scope.set("documents", jinja::None{});
  scope.set("add_generation_prompt", variables.add_generation_prompt);
  const std::pair<std::string_view, const std::string*> tokens[] = {{"bos_token", &variables.bos_token},
                                                                    {"eos_token", &variables.eos_token},
                                                                    {"pad_token", &variables.pad_token},
                                                                    {"unk_token", &variables.unk_token}};
  for (const auto& [name, token] : tokens) {
    if (!token->empty()) scope.set(name, *token);
  }
  for (auto entry = extra.begin(); entry != extra.end(); ++entry) {
    scope.set(entry.key(), value_of(entry.value(), caller_mark));
  }
}

int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return static_cast<int64_t>(now) + parts.tm_gmtoff;
}

std::vector<Piece> pieces_of(const Text& rendered) {
  std::vector<Piece> pieces;
  const auto add = [&](std::string part, const Mark& mark) {
    pieces.push_back({std::move(part), mark.message, mark.words, mark.is_generation});
  };
  auto anchor = rendered.anchors().begin();
  size_t begin = 0;
  for (const auto& run : rendered.runs()) {
    for (; anchor != rendered.anchors().end() && anchor->at < run.end; ++anchor) {
      // The run is cut where something empty was printed.
      if (anchor->at > begin) add(rendered.bytes().substr(begin, anchor->at - begin), run.mark);
      begin = std::max(begin, anchor->at);
      add("", anchor->mark);
    }
    if (run.end > begin) add(rendered.bytes().substr(begin, run.end - begin), run.mark);
    begin = run.end;
  }
  for (; anchor != rendered.anchors().end(); ++anchor) add("", anchor->mark);
  return pieces;
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const jinja::Program> program) : program_(std::move(program)) {}

ChatTemplate ChatTemplate::parse(std::string source, std::string origin) {
  return ChatTemplate(jinja::parse(std::move(source), std::move(origin)));
}

std::vector<Piece> ChatTemplate::render(const Conversation& conversation, const Variables& variables) const {
  return render(conversation, variables, Limits());
}

std::vector<Piece> ChatTemplate::render(const Conversation& conversation, const Variables& variables,
                                        const Limits& limits) const {
  io::Json extra = io::Json::object();
  if (!variables.extra_json.empty()) extra = io::parse_json(variables.extra_json, "template variables");
  if (!extra.is_object()) throw ConfigError("the template's extra variables are no JSON object");
  jinja::Session session(limits, variables.now >= 0 ? variables.now : local_now());
  jinja::Scope* scope = session.new_scope(nullptr);
  try {
    fill_scope(*scope, conversation, variables, extra);
  } catch (const jinja::Fault& fault) {
    throw DataError(text("the conversation cannot be rendered: ", fault.why));
  }
  return pieces_of(jinja::Interpreter(*program_, session).run(scope));
}

std::string ChatTemplate::render_text(const Conversation& conversation, const Variables& variables) const {
  std::string whole;
  for (const Piece& piece : render(conversation, variables)) whole += piece.text;
  return whole;
}

bool ChatTemplate::has_generation_marks() const { return program_->has_generation; }
const std::string& ChatTemplate::source() const { return program_->source; }

}  // namespace duoka::data
