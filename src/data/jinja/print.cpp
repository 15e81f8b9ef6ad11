// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/print.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "data/jinja/operators.h"
#include "data/jinja/unicode.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

void append_escape(std::string& out, uint32_t c) {
  char escape[11];
  const char* form = c <= 0xFF ? "\\x%02x" : c <= 0xFFFF ? "\\u%04x" : "\\U%08x";
  std::snprintf(escape, sizeof escape, form, c);
  out += escape;
}

/// The code points str.isprintable() refuses that occur in text at all: controls, spaces but ' ', and
/// the invisible marks of the Basic Multilingual Plane.
bool is_printable(uint32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD) return false;
  if (c != ' ' && is_space(c)) return false;
  return !(c >= 0x200B && c <= 0x200F) && !(c >= 0x202A && c <= 0x202E) && !(c >= 0x2060 && c <= 0x206F) &&
         !(c >= 0xE000 && c <= 0xF8FF) && c != 0xFEFF;
}

class Repr {
 public:
  explicit Repr(Session& session) : session_(session) {}

  void add(const Value& value) {
    session_.step();
    if (const Text* held = value.as_text()) return add_string(*held);
    if (const List* list = value.as_list()) return add_list(*list);
    if (const Dict* dict = value.as_dict()) return add_dict(*dict);
    if (value.is_undefined()) return out_.append("Undefined");
    const Text whole = to_text(session_, value);
    session_.make_bytes(whole.size(), out_.size() + whole.size());
    out_.append(whole);
  }

  Text take() { return std::move(out_); }

 private:
  void add_string(const Text& held) {
    const std::string_view bytes = held.view();
    const bool is_double =
        bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos;
    const char quote = is_double ? '"' : '\'';
    session_.make_bytes(bytes.size(), out_.size() + bytes.size());
    out_.append(std::string_view(&quote, 1), held.mark_at(0));
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = char_bytes(bytes, at);
      out_.append(escaped(bytes.substr(at, count), char_at(bytes, at), quote), held.mark_at(at));
      at += count;
    }
    out_.append(std::string_view(&quote, 1), held.mark_at(0));
  }

  static std::string escaped(std::string_view bytes, uint32_t c, char quote) {
    if (c == '\\' || c == static_cast<uint32_t>(quote)) return "\\" + std::string(bytes);
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    std::string out;
    if (is_printable(c)) return std::string(bytes);
    append_escape(out, c);
    return out;
  }

  void add_list(const List& list) {
    if (list.kind == List::Kind::generator) return out_.append("<generator object>");
    const bool is_tuple = list.kind == List::Kind::tuple;
    const bool is_view = list.kind == List::Kind::view;
    out_.append(is_tuple ? "(" : is_view ? "dict_view([" : "[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(", ");
      add(list.items[i]);
    }
    if (is_tuple && list.items.size() == 1) out_.append(",");
    out_.append(is_tuple ? ")" : is_view ? "])" : "]");
  }

  void add_dict(const Dict& dict) {
    out_.append("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) out_.append(", ");
      add(dict.entries[i].first);
      out_.append(": ");
      add(dict.entries[i].second);
    }
    out_.append("}");
  }

  Session& session_;
  Text out_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const double size = std::abs(value);
  const bool is_plain = value == 0 || (size >= 1e-4 && size < 1e16);
  const auto form = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string out(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, form).ptr);
  if (is_plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

Text to_text(Session& session, const Value& value) {
  if (const Text* held = text_of(value)) return *held;
  if (value.is_undefined()) return {};
  if (value.is_none()) return std::string("None");
  if (const bool* held = value.as_bool()) return std::string(*held ? "True" : "False");
  if (const int64_t* held = value.as_int()) return std::to_string(*held);
  if (const double* held = value.as_double()) return float_text(*held);
  if (const Callable* held = value.as_callable()) return "<function " + held->name + ">";
  if (value.as_namespace()) return std::string("<Namespace>");
  if (value.as_loop()) return std::string("<loop>");
  Repr repr(session);
  repr.add(value);
  return repr.take();
}

Text to_repr(Session& session, const Value& value) {
  Repr repr(session);
  repr.add(value);
  return repr.take();
}

}  // namespace duoka::data::jinja
