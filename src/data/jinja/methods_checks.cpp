// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "data/jinja/filters.h"
#include "data/jinja/method_tables.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

template <bool (*accepts)(uint32_t), bool when_empty = false>
Value all_chars(Session& session, const Value& self, const Arguments& args) {
  bind("the check", args, {});
  const std::string_view bytes = text_of(self)->view();
  session.step(1 + static_cast<int64_t>(bytes.size() >> 6));
  for (size_t at = 0; at < bytes.size(); at += char_bytes(bytes, at)) {
    if (!accepts(char_at(bytes, at))) return false;
  }
  return when_empty || !bytes.empty();
}

bool is_ascii(uint32_t c) { return c < 0x80; }

/// Decimal digits, and those written high or low.
bool is_digit(uint32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}

template <Case same, Case other>
Value has_case(Session& session, const Value& self, const Arguments& args) {
  bind("the check", args, {});
  const Text& held = *text_of(self);
  return change_case(session, held, same).bytes() == held.bytes() &&
         change_case(session, held, other).bytes() != held.bytes();
}

enum class Place { left, right, middle };

template <Place place>
Value justify(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("padding", args, {"width", "fillchar"});
  if (!bound[0]) throw Fault{"padding needs a width"};
  const Text fill = bound[1] ? string_argument("padding", bound[1]) : Text(" ");
  if (count_chars(fill.view()) != 1) throw Fault{"padding needs one character to fill with"};
  const Text& held = *text_of(self);
  const int64_t width = int_argument("padding", *bound[0]);
  const int64_t size = count_chars(held.view());
  // Compared first: a width far below 0 must not wrap around.
  if (width <= size) return self;
  const int64_t missing = width - size;
  const auto filled = [&](int64_t count) {
    return binary(session, BinaryOp::multiply, Value(fill), Value(count));
  };
  // Python's center() puts the odd one left where the width is odd.
  const int64_t left = place == Place::left    ? 0
                       : place == Place::right ? missing
                                               : missing / 2 + (missing & width & 1);
  const Value front = binary(session, BinaryOp::add, filled(left), self);
  return binary(session, BinaryOp::add, front, filled(missing - left));
}

Value zfill(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("zfill", args, {"width"});
  if (!bound[0]) throw Fault{"zfill needs a width"};
  const Text& held = *text_of(self);
  const int64_t width = int_argument("zfill", *bound[0]);
  const int64_t size = count_chars(held.view());
  if (width <= size) return self;
  const int64_t missing = width - size;
  const size_t sign = held.view().starts_with('-') || held.view().starts_with('+') ? 1 : 0;
  Text out = held.slice(0, sign);
  out.append(*binary(session, BinaryOp::multiply, Value("0"), Value(missing)).as_text());
  out.append(held, sign, held.size());
  return session.text(std::move(out));
}

}  // namespace

std::span<const NamedMethod> check_methods() {
  static constexpr NamedMethod methods[] = {{"isalpha", all_chars<is_letter>},
                                            {"isalnum", all_chars<is_letter_or_number>},
                                            {"isascii", all_chars<is_ascii, true>},
                                            {"isdecimal", all_chars<is_decimal>},
                                            {"isdigit", all_chars<is_digit>},
                                            {"isspace", all_chars<is_space>},
                                            {"islower", has_case<Case::lower, Case::upper>},
                                            {"isupper", has_case<Case::upper, Case::lower>},
                                            {"ljust", justify<Place::left>},
                                            {"rjust", justify<Place::right>},
                                            {"center", justify<Place::middle>},
                                            {"zfill", zfill}};
  return methods;
}

}  // namespace duoka::data::jinja
