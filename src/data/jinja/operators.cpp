// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/jinja/format.h"
#include "data/jinja/numbers.h"
#include "data/jinja/unicode.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

const char* symbol(BinaryOp op) {
  static const char* const symbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return symbols[static_cast<int>(op)];
}

[[noreturn]] void fail_types(BinaryOp op, const Value& a, const Value& b) {
  throw Fault{text("cannot compute ", type_name(a), " ", symbol(op), " ", type_name(b))};
}

[[noreturn]] void fail_overflow(BinaryOp op) {
  throw Fault{text("the result of ", symbol(op), " does not fit into 64 bits")};
}

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

double float_power(double a, double b) {
  if (a == 0 && b < 0) throw Fault{"0 cannot be raised to a negative power"};
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
    throw Fault{"the result of ** is too large"};
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
    throw Fault{"a negative number to a power that is not whole is no real number"};
  }
  return result;
}

Value int_power(Session& session, int64_t base, int64_t exponent) {
  if (exponent < 0) return float_power(static_cast<double>(base), static_cast<double>(exponent));
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    session.step();
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow(BinaryOp::power);
    if (result == base && (base == 0 || base == 1)) break;
  }
  return result;
}

Value int_arithmetic(Session& session, BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case BinaryOp::add:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::subtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::multiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::power:
      return int_power(session, a, b);
    default:
      if (b == 0) throw Fault{"division by zero"};
      if (op == BinaryOp::divide) return static_cast<double>(a) / static_cast<double>(b);
      if (a == INT64_MIN && b == -1) fail_overflow(op);
      result = op == BinaryOp::modulo ? a - floor_quotient(a, b) * b : floor_quotient(a, b);
  }
  if (overflows) fail_overflow(op);
  return result;
}

Value float_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::subtract:
      return a - b;
    case BinaryOp::multiply:
      return a * b;
    case BinaryOp::power:
      return float_power(a, b);
    default:
      break;
  }
  if (b == 0) throw Fault{"division by zero"};
  if (op == BinaryOp::divide) return a / b;
  double remainder = std::fmod(a, b);
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
  }
  return op == BinaryOp::modulo ? remainder : std::floor((a - remainder) / b + 0.5);
}

Value repeat(Session& session, const Value& what, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (const Text* held = text_of(what)) {
    const size_t size = held->size();
    // Bounded before the product, so that it cannot wrap.
    if (size > 0) session.make_bytes(times, times);
    session.make_bytes(size * times, size * times);
    Text out;
    for (size_t i = 0; size > 0 && i < times; ++i) out.append(*held);
    return out;
  }
  const List& list = *what.as_list();
  Values items;
  for (size_t i = 0; !list.items.empty() && i < times; ++i) {
    session.step(static_cast<int64_t>(list.items.size()));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(std::move(items), list.kind);
}

bool is_repeatable(const Value& value) {
  const List* list = value.as_list();
  return text_of(value) || (list && list->kind <= List::Kind::tuple);
}

std::optional<Value> join_sequences(Session& session, const Value& a, const Value& b) {
  if (const Text* left = text_of(a), *right = text_of(b); left && right) {
    session.make_bytes(left->size() + right->size(), left->size() + right->size());
    Text out = *left;
    out.append(*right);
    return out;
  }
  const List *left = a.as_list(), *right = b.as_list();
  if (!left || !right || left->kind != right->kind || left->kind > List::Kind::tuple) return std::nullopt;
  session.step(static_cast<int64_t>(left->items.size() + right->items.size()));
  Values items = left->items;
  items.insert(items.end(), right->items.begin(), right->items.end());
  return make_list(std::move(items), left->kind);
}

/// Of two numbers, at least one of them a float; null where one is no number.
std::optional<std::partial_ordering> number_order(const Value& a, const Value& b) {
  const double *x = a.as_double(), *y = b.as_double();
  if (x && y) return *x <=> *y;
  if (const auto whole = int_of(a); whole && y) return compare_exactly(*whole, *y);
  // NOLINTNEXTLINE(modernize-use-nullptr): this 0 turns an order round.
  if (const auto whole = int_of(b); whole && x) return 0 <=> compare_exactly(*whole, *x);
  return std::nullopt;
}

bool lists_equal(Session& session, const List& a, const List& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    [&](const Value& x, const Value& y) { return is_equal(session, x, y); });
}

bool dicts_equal(Session& session, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other && is_equal(session, entry.second, *other);
  });
}

bool lists_less(Session& session, const List& a, const List& b) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    if (!is_equal(session, a.items[i], b.items[i])) return is_less(session, a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size();
}

}  // namespace

void fail_undefined(const Value& value) {
  const auto& why = std::get<Undefined>(value.variant()).why;
  throw Fault{why ? *why : "a value is undefined"};
}

std::optional<int64_t> int_of(const Value& value) {
  if (const int64_t* held = value.as_int()) return *held;
  if (const bool* held = value.as_bool()) return *held ? 1 : 0;
  return std::nullopt;
}

std::optional<double> double_of(const Value& value) {
  if (const double* held = value.as_double()) return *held;
  if (const auto whole = int_of(value)) return static_cast<double>(*whole);
  return std::nullopt;
}

const Text* text_of(const Value& value) {
  return value.is_null_content() ? std::get<None>(value.variant()).content.get() : value.as_text();
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto number = double_of(value)) return *number != 0;
  if (const Text* held = value.as_text()) return !held->is_empty();
  if (const List* list = value.as_list()) return list->kind == List::Kind::generator || !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->entries.empty();
  return true;
}

Value binary(Session& session, BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::modulo && a.as_text()) return format_percent(session, *a.as_text(), b);
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (op == BinaryOp::add) {
    if (auto joined = join_sequences(session, a, b)) return *joined;
  }
  const auto whole_a = int_of(a), whole_b = int_of(b);
  if (op == BinaryOp::multiply) {
    if (is_repeatable(a) && whole_b) return repeat(session, a, *whole_b);
    if (is_repeatable(b) && whole_a) return repeat(session, b, *whole_a);
  }
  if (whole_a && whole_b) return int_arithmetic(session, op, *whole_a, *whole_b);
  const auto float_a = double_of(a), float_b = double_of(b);
  if (!float_a || !float_b) fail_types(op, a, b);
  return float_arithmetic(op, *float_a, *float_b);
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (const auto whole = int_of(value)) {
    if (*whole == INT64_MIN) fail_overflow(BinaryOp::subtract);
    return -*whole;
  }
  if (const double* held = value.as_double()) return -*held;
  throw Fault{text("cannot negate a ", type_name(value))};
}

bool is_equal(Session& session, const Value& a, const Value& b) {
  session.step();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (const Text* x = text_of(a), *y = text_of(b); x && y) {
    if (x->size() != y->size()) return false;
    session.step(static_cast<int64_t>(x->size() >> 8));
    return x->bytes() == y->bytes();
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (const auto x = int_of(a), y = int_of(b); x && y) return *x == *y;
  if (const auto order = number_order(a, b)) return std::is_eq(*order);
  if (const List* x = a.as_list(), *y = b.as_list(); x && y) return x == y || lists_equal(session, *x, *y);
  if (const Dict* x = a.as_dict(), *y = b.as_dict(); x && y) return x == y || dicts_equal(session, *x, *y);
  if (a.as_namespace()) return a.as_namespace() == b.as_namespace();
  if (a.as_callable()) return a.as_callable() == b.as_callable();
  return a.as_loop() && a.as_loop() == b.as_loop();
}

bool is_less(Session& session, const Value& a, const Value& b) {
  session.step();
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (const Text* x = text_of(a), *y = text_of(b); x && y) return x->bytes() < y->bytes();
  if (const auto x = int_of(a), y = int_of(b); x && y) return *x < *y;
  if (const auto order = number_order(a, b)) return std::is_lt(*order);
  if (const List* x = a.as_list(), *y = b.as_list(); x && y && x->kind == y->kind) {
    return lists_less(session, *x, *y);
  }
  throw Fault{text("cannot order ", type_name(a), " and ", type_name(b))};
}

bool contains(Session& session, const Value& whole, const Value& part) {
  if (whole.is_undefined()) return false;
  if (const Text* held = text_of(whole)) {
    const Text* needle = text_of(part);
    if (!needle) throw Fault{text("'in' on a string needs a string, not ", type_name(part))};
    session.step(1 + static_cast<int64_t>(held->size() >> 6));
    return held->view().find(needle->view()) != std::string_view::npos;
  }
  if (const Dict* dict = whole.as_dict()) return dict->find(part) != nullptr;
  const List* list = whole.as_list();
  if (!list) throw Fault{text("'in' does not work on a ", type_name(whole))};
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& item) { return is_equal(session, item, part); });
}

bool compare(Session& session, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::equal:
      return is_equal(session, a, b);
    case CompareOp::not_equal:
      return !is_equal(session, a, b);
    case CompareOp::less:
      return is_less(session, a, b);
    case CompareOp::less_equal:
      return is_less(session, a, b) || is_equal(session, a, b);
    case CompareOp::greater:
      return is_less(session, b, a);
    case CompareOp::greater_equal:
      return is_less(session, b, a) || is_equal(session, a, b);
    case CompareOp::in:
      return contains(session, b, a);
    case CompareOp::not_in:
      return !contains(session, b, a);
  }
  return false;
}

Values iterate(Session& session, const Value& value) {
  if (value.is_undefined()) return {};
  if (const List* list = value.as_list()) {
    if (list->kind == List::Kind::generator && std::exchange(list->is_spent, true)) return {};
    session.step(static_cast<int64_t>(list->items.size()));
    return list->items;
  }
  Values items;
  if (const Dict* dict = value.as_dict()) {
    session.step(static_cast<int64_t>(dict->entries.size()));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
    return items;
  }
  const Text* held = text_of(value);
  if (!held) throw Fault{text("a value of type ", type_name(value), " cannot be iterated over")};
  for (size_t at = 0; at < held->size();) {
    session.step();
    const size_t count = char_bytes(held->view(), at);
    items.push_back(session.text(held->slice(at, at + count)));
    at += count;
  }
  return items;
}

int64_t length(Session& session, const Value& value) {
  if (value.is_undefined()) return 0;
  if (const Text* held = text_of(value)) {
    session.step(static_cast<int64_t>(held->size() >> 6));
    return count_chars(held->view());
  }
  if (const Dict* dict = value.as_dict()) return static_cast<int64_t>(dict->entries.size());
  if (const List* list = value.as_list(); list && list->kind != List::Kind::generator) {
    return static_cast<int64_t>(list->items.size());
  }
  if (const Loop* loop = value.as_loop()) return static_cast<int64_t>(loop->items.size());
  throw Fault{text("a value of type ", type_name(value), " has no length")};
}

}  // namespace duoka::data::jinja
