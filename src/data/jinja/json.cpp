// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/unicode.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

void append_unit(std::string& out, uint32_t unit) {
  char escape[12];
  std::snprintf(escape, sizeof escape, "\\u%04x", unit);
  out += escape;
}

std::string json_char(std::string_view bytes, uint32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  if (c >= 0x20 && (c < 0x7F || !ensure_ascii)) return std::string(bytes);
  std::string out;
  if (c > 0xFFFF) {
    append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
    c = 0xDC00 + ((c - 0x10000) & 0x3FF);
  }
  append_unit(out, c);
  return out;
}

class JsonWriter {
 public:
  JsonWriter(Session& session, const JsonStyle& style) : session_(session), style_(style) {}

  void add(const Value& value, int level) {
    session_.step();
    if (const Text* held = value.as_text()) return add_string(*held);
    if (const List* list = value.as_list()) return add_list(*list, level);
    if (const Dict* dict = value.as_dict()) return add_dict(*dict, level);
    add_raw(scalar(value));
  }

  Text take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_null_content()) return "\"\"";
    if (value.is_none()) return "null";
    if (const bool* held = value.as_bool()) return *held ? "true" : "false";
    if (const int64_t* held = value.as_int()) return std::to_string(*held);
    if (const double* held = value.as_double()) {
      if (std::isnan(*held)) return "NaN";
      if (std::isinf(*held)) return *held > 0 ? "Infinity" : "-Infinity";
      return float_text(*held);
    }
    throw Fault{text("a value of type ", type_name(value), " cannot be written as JSON")};
  }

  void add_raw(std::string_view bytes) {
    session_.make_bytes(bytes.size(), out_.size() + bytes.size());
    out_.append(bytes);
  }

  void add_string(const Text& held) {
    const std::string_view bytes = held.view();
    session_.make_bytes(bytes.size(), out_.size() + bytes.size());
    // The quotes are part of what the value's owner wrote: no control token may grow across them.
    out_.append("\"", held.mark_at(0));
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = char_bytes(bytes, at);
      out_.append(json_char(bytes.substr(at, count), char_at(bytes, at), style_.ensure_ascii),
                  held.mark_at(at));
      at += count;
    }
    out_.append("\"", held.mark_at(bytes.size()));
  }

  void add_break(int level) {
    if (!style_.indent) return;
    std::string line = "\n";
    session_.make_bytes(style_.indent->size() * static_cast<size_t>(level), out_.size());
    for (int i = 0; i < level; ++i) line += *style_.indent;
    add_raw(line);
  }

  void add_separator(const Text& separator) {
    session_.make_bytes(separator.size(), out_.size() + separator.size());
    out_.append(separator);
  }

  void add_list(const List& list, int level) {
    if (list.kind != List::Kind::list && list.kind != List::Kind::tuple) {
      throw Fault{text("a ", list.kind == List::Kind::view ? "dict view" : "generator",
                       " cannot be written as JSON; make it a list first")};
    }
    if (list.items.empty()) return add_raw("[]");
    add_raw("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) add_separator(style_.item_separator);
      add_break(level + 1);
      add(list.items[i], level + 1);
    }
    add_break(level);
    add_raw("]");
  }

  void add_key(const Value& key) {
    if (const Text* held = key.as_text()) return add_string(*held);
    add_raw("\"" + scalar(key) + "\"");
  }

  void add_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) return add_raw("{}");
    auto entries = dict.entries;
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto& a, const auto& b) { return is_less(session_, a.first, b.first); });
    }
    add_raw("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add_separator(style_.item_separator);
      add_break(level + 1);
      add_key(entries[i].first);
      add_separator(style_.key_separator);
      add(entries[i].second, level + 1);
    }
    add_break(level);
    add_raw("}");
  }

  Session& session_;
  const JsonStyle& style_;
  Text out_;
};

}  // namespace

Text to_json(Session& session, const Value& value, const JsonStyle& style) {
  JsonWriter writer(session, style);
  writer.add(value, 0);
  return writer.take();
}

}  // namespace duoka::data::jinja
