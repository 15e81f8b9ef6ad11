// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/json.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"

namespace duoka::io {

namespace {

/// Reads characters for the parser and leaves word of how far it is.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// Builds the document from the parser's events. Written out, because the library's own builder looks for
/// each key among all before it (quadratic in a vocabulary), keeps the last of two equal keys and nests
/// without bound.
class Builder {
 public:
  Builder(std::string_view text, const std::string& origin, int64_t first_line)
      : text_(text), origin_(origin), first_line_(first_line), reached_(text.data()) {}

  const char** reached() { return &reached_; }
  Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // no such thing in text

  bool start_object(size_t) {
    open(Json::object());
    // Elements of an object are copied, not moved, when it grows: save the first few rounds.
    levels_.back().node->get_ref<Json::object_t&>().reserve(16);
    return true;
  }
  bool start_array(size_t) {
    open(Json::array());
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Level& level = levels_.back();
    auto& members = level.node->get_ref<Json::object_t&>();
    if (is_known(level, members, name))
      refuse(start_of_string(), text("the key \"", name, "\" is given twice"));
    members.emplace_back(std::move(name), nullptr);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // The position counts the last character read, and one more at the end of the text.
    refuse(std::min(position == 0 ? 0 : position - 1, text_.size()), reason(error.what()));
  }

 private:
  /// Of "[json.exception.parse_error.101] parse error at line 1, column 2: why; last read: 'x'; expected y"
  /// what we do not say better: what was read last can be long, or no UTF-8.
  static std::string reason(std::string_view what) {
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    if (what.starts_with("parse error at")) what.remove_prefix(what.find(": ") + 2);
    const size_t read = what.find("; last read: "), expected = what.rfind("; expected ");
    std::string why(what.substr(0, std::min(read, what.size())));
    if (read != std::string_view::npos && expected != std::string_view::npos && expected > read)
      why += what.substr(expected);
    return why;
  }

  struct Level {
    Json* node;
    std::unordered_set<std::string> keys;  ///< Of an object with many.
  };

  template <class Value>
  bool add(Value&& value) {
    place(Json(std::forward<Value>(value)));
    return true;
  }

  /// Puts `value` where the next value belongs and returns its place. That place stays put while the value
  /// is being filled: nothing is added beside it until it is closed.
  Json* place(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *levels_.back().node;
    Json& slot = parent.is_object() ? parent.get_ref<Json::object_t&>().back().second
                                    : parent.get_ref<Json::array_t&>().emplace_back();
    slot = std::move(value);
    return &slot;
  }

  void open(Json empty) {
    if (levels_.size() == static_cast<size_t>(max_json_depth))
      refuse(last_read(), text("nested more than ", max_json_depth, " deep"));
    levels_.push_back({place(std::move(empty)), {}});
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  static bool is_known(Level& level, const Json::object_t& members, const std::string& name) {
    constexpr size_t few = 16;
    if (members.size() < few)
      return std::any_of(members.begin(), members.end(),
                         [&](const auto& member) { return member.first == name; });
    if (level.keys.empty())
      for (const auto& member : members) level.keys.insert(member.first);
    return !level.keys.insert(name).second;
  }

  /// Where the last character that the parser took is.
  size_t last_read() const {
    return static_cast<size_t>(std::max<ptrdiff_t>(0, reached_ - text_.data() - 1));
  }

  /// Where the string token that was just read begins: inside one every quote has a backslash before it.
  size_t start_of_string() const {
    size_t at = last_read();
    while (at > 0 && (text_[--at] != '"' || (at > 0 && text_[at - 1] == '\\'))) {
    }
    return at;
  }

  [[noreturn]] void refuse(size_t at, const std::string& why) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = first_line_ + std::count(before.begin(), before.end(), '\n');
    const size_t newline = before.rfind('\n');
    const size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
    throw FormatError(text(origin_, ":", line, ":", column, ": ", printable(why)));
  }

  std::string_view text_;
  const std::string& origin_;
  int64_t first_line_;
  const char* reached_;
  Json root_;
  std::vector<Level> levels_;
};

bool is_utf16(std::string_view text) { return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"); }

}  // namespace

Json parse_json(std::string_view document, const std::string& origin, int64_t first_line) {
  if (is_utf16(document)) throw FormatError(text(origin, ": it is UTF-16; save it as UTF-8"));
  const std::string_view body = without_bom(document);
  Builder builder(body, origin, first_line);
  const char* end = body.data() + body.size();
  Json::sax_parse(Cursor(body.data(), builder.reached()), Cursor(end, builder.reached()), &builder);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_text_file(path), path.string());
}

namespace {

/// The member, or null when it is absent or JSON's null.
const Json* member(const Json& object, std::string_view key, const std::string& origin) {
  if (!object.is_object())
    throw FormatError(
        text(origin, ": wanted an object with the key \"", key, "\", found ", object.type_name()));
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>())
    if (name == key) return value.is_null() ? nullptr : &value;
  return nullptr;
}

[[noreturn]] void refuse_type(const Json& found, std::string_view key, const std::string& origin,
                              const char* wanted) {
  std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 60) shown = std::string(found.type_name());
  throw FormatError(text(origin, ": \"", key, "\" is ", shown, "; wanted ", wanted));
}

template <class Value>
Value required(std::optional<Value> value, std::string_view key, const std::string& origin) {
  if (!value) throw FormatError(text(origin, ": the key \"", key, "\" is missing"));
  return *std::move(value);
}

const Json& required(const Json* value, std::string_view key, const std::string& origin) {
  if (value == nullptr) throw FormatError(text(origin, ": the key \"", key, "\" is missing"));
  return *value;
}

bool is_whole(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  if (value.is_number_integer()) return true;
  constexpr double largest_exact = 9007199254740992.0;  // 2^53
  return value.is_number_float() && std::abs(value.get<double>()) <= largest_exact &&
         value.get<double>() == std::trunc(value.get<double>());
}

}  // namespace

std::optional<int64_t> optional_int(const Json& object, std::string_view key, const std::string& origin) {
  const Json* value = member(object, key, origin);
  if (value == nullptr) return std::nullopt;
  if (!is_whole(*value)) refuse_type(*value, key, origin, "a whole number");
  return value->get<int64_t>();
}

std::optional<double> optional_number(const Json& object, std::string_view key, const std::string& origin) {
  const Json* value = member(object, key, origin);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse_type(*value, key, origin, "a number");
  return value->get<double>();
}

std::optional<bool> optional_bool(const Json& object, std::string_view key, const std::string& origin) {
  const Json* value = member(object, key, origin);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(*value, key, origin, "true or false");
  return value->get<bool>();
}

std::optional<std::string> optional_string(const Json& object, std::string_view key,
                                           const std::string& origin) {
  const Json* value = member(object, key, origin);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(*value, key, origin, "a string");
  return value->get<std::string>();
}

const Json* optional_object(const Json& object, std::string_view key, const std::string& origin) {
  const Json* value = member(object, key, origin);
  if (value != nullptr && !value->is_object()) refuse_type(*value, key, origin, "an object");
  return value;
}

const Json* optional_array(const Json& object, std::string_view key, const std::string& origin) {
  const Json* value = member(object, key, origin);
  if (value != nullptr && !value->is_array()) refuse_type(*value, key, origin, "an array");
  return value;
}

int64_t require_int(const Json& object, std::string_view key, const std::string& origin) {
  return required(optional_int(object, key, origin), key, origin);
}

double require_number(const Json& object, std::string_view key, const std::string& origin) {
  return required(optional_number(object, key, origin), key, origin);
}

bool require_bool(const Json& object, std::string_view key, const std::string& origin) {
  return required(optional_bool(object, key, origin), key, origin);
}

std::string require_string(const Json& object, std::string_view key, const std::string& origin) {
  return required(optional_string(object, key, origin), key, origin);
}

const Json& require_object(const Json& object, std::string_view key, const std::string& origin) {
  return required(optional_object(object, key, origin), key, origin);
}

const Json& require_array(const Json& object, std::string_view key, const std::string& origin) {
  return required(optional_array(object, key, origin), key, origin);
}

}  // namespace duoka::io
