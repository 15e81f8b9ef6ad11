// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/format.h"

#include <cmath>
#include <cstdio>
#include <optional>

#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/unicode.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

constexpr int max_precision = 100;

/// Hands out the values of a format one after another.
class Supply {
 public:
  explicit Supply(const Value& values) : values_(values) {
    const List* list = values.as_list();
    tuple_ = list && list->kind == List::Kind::tuple ? list : nullptr;
  }
  const Value& next() {
    if (taken_ >= size()) throw Fault{"a format asks for more values than were given"};
    ++taken_;
    return tuple_ ? tuple_->items[taken_ - 1] : values_;
  }
  void expect_end() const {
    // A single value may stay unused where it could be a mapping of names: Python tells by its subscripts.
    const bool may_be_left = !tuple_ && (values_.as_list() || values_.as_dict());
    if (taken_ < size() && !may_be_left) throw Fault{"a format was given more values than it asks for"};
  }

 private:
  size_t size() const { return tuple_ ? tuple_->items.size() : 1; }

  const Value& values_;
  const List* tuple_ = nullptr;
  size_t taken_ = 0;
};

std::string fixed_text(double value, int precision) {
  if (std::abs(value) > 1e300) throw Fault{"%f of a number beyond 1e300"};
  char buffer[max_precision + 320];
  std::snprintf(buffer, sizeof buffer, "%.*f", precision, value);
  return buffer;
}

/// `precision`: characters of a text to keep, digits of a number behind the point (6 when not given).
Text converted(Session& session, char kind, std::optional<int> precision, const Value& value) {
  if (kind == 's' || kind == 'r') {
    const Text whole = kind == 's' ? to_text(session, value) : to_repr(session, value);
    return precision ? whole.slice(0, char_offset(whole.view(), *precision)) : whole;
  }
  const auto number = double_of(value);
  if (!number) throw Fault{text("%", kind, " needs a number, not ", type_name(value))};
  if (kind == 'f') return fixed_text(*number, precision.value_or(6));
  const auto whole = int_of(value);
  return whole ? std::to_string(*whole) : fixed_text(std::trunc(*number), 0);
}

/// Reads ".N" behind a '%'; null without one.
std::optional<int> read_precision(std::string_view form, size_t& at) {
  if (at >= form.size() || form[at] != '.') return std::nullopt;
  int precision = 0;
  for (++at; at < form.size() && form[at] >= '0' && form[at] <= '9'; ++at) {
    precision = precision * 10 + (form[at] - '0');
    if (precision > max_precision) throw Fault{text("a format's precision is beyond ", max_precision)};
  }
  return precision;
}

/// The value a replacement field {name} of str.format stands for. `next_index`: of the next {}.
const Value& field_value(const Arguments& arguments, std::string_view name, size_t& next_index) {
  if (name.find_first_of(":!.[") != std::string_view::npos) {
    throw Fault{text("format() fields are {}, {0} or {name} only, not {", name, "}")};
  }
  if (!name.empty() && name.find_first_not_of("0123456789") != std::string_view::npos) {
    const Value* found = arguments.find(name);
    if (!found) throw Fault{text("format() got no value for {", name, "}")};
    return *found;
  }
  if (name.size() > 4) throw Fault{text("format() got no value for {", name, "}")};
  const size_t index = name.empty() ? next_index++ : std::stoul(std::string(name));
  if (index >= arguments.positional.size()) throw Fault{text("format() got no value for field ", index)};
  return arguments.positional[index];
}

void add_charged(Session& session, Text& out, const Text& part) {
  session.make_bytes(part.size(), out.size() + part.size());
  out.append(part);
}

}  // namespace

Text format_percent(Session& session, const Text& form, const Value& values) {
  Supply supply(values);
  Text out;
  const std::string_view bytes = form.view();
  for (size_t at = 0; at < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', at), bytes.size());
    add_charged(session, out, form.slice(at, percent));
    if (percent == bytes.size()) break;
    at = percent + 1;
    const std::optional<int> precision = read_precision(bytes, at);
    const char kind = at < bytes.size() ? bytes[at] : '\0';
    if (kind == '%') {
      out.append(form, at, at + 1);
    } else if (kind != '\0' && std::string_view("srdif").find(kind) != std::string_view::npos) {
      add_charged(session, out, converted(session, kind, precision, supply.next()));
    } else {
      throw Fault{"a % format knows %s, %r, %d, %i, %f and %% only"};
    }
    ++at;
  }
  supply.expect_end();
  return out;
}

Text format_braces(Session& session, const Text& form, const Arguments& arguments) {
  Text out;
  size_t next_index = 0;
  const std::string_view bytes = form.view();
  for (size_t at = 0; at < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    add_charged(session, out, form.slice(at, brace));
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      out.append(form, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const size_t close = bytes.find('}', brace);
    if (bytes[brace] == '}' || close == std::string_view::npos)
      throw Fault{"a brace of format() has no partner"};
    const auto name = bytes.substr(brace + 1, close - brace - 1);
    add_charged(session, out, to_text(session, field_value(arguments, name, next_index)));
    at = close + 1;
  }
  return out;
}

}  // namespace duoka::data::jinja
