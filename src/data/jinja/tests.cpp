// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/tests.h"

#include <cmath>

#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

/// A test that looks at its operand alone.
template <bool (*test)(const Value&)>
bool plain(Session&, const Value& operand, const Arguments& args) {
  bind("the test", args, {});
  return test(operand);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_string(const Value& v) { return v.as_text() != nullptr; }
bool is_mapping(const Value& v) { return v.as_dict() != nullptr; }
bool is_boolean(const Value& v) { return v.as_bool() != nullptr; }
bool is_true_itself(const Value& v) { return v.as_bool() && *v.as_bool(); }
bool is_false_itself(const Value& v) { return v.as_bool() && !*v.as_bool(); }
bool is_integer(const Value& v) { return v.as_int() != nullptr; }
bool is_float(const Value& v) { return v.as_double() != nullptr; }
bool is_number(const Value& v) { return double_of(v).has_value(); }
bool is_callable(const Value& v) { return v.as_callable() != nullptr; }
// Undefined has no items, but Python's Undefined does not say so: it counts as iterable and as a sequence.
bool is_iterable(const Value& v) { return v.is_undefined() || v.as_text() || v.as_list() || v.as_dict(); }
bool is_sequence(const Value& v) {
  const List* list = v.as_list();
  return list ? list->kind == List::Kind::list || list->kind == List::Kind::tuple : is_iterable(v);
}

/// Whether value % divisor == rest, for whole numbers and floats.
bool leaves(const Value& value, const Value& divisor, double rest) {
  if (value.is_undefined()) fail_undefined(value);
  const auto a = double_of(value), b = double_of(divisor);
  if (!a || !b) throw Fault{text("a number is tested, not a ", type_name(a ? divisor : value))};
  if (*b == 0) throw Fault{"divisibleby needs a number that is not 0"};
  const auto x = int_of(value), y = int_of(divisor);
  if (x && y) return *y == -1 ? rest == 0 : std::abs(*x % *y) == static_cast<int64_t>(rest);
  return std::abs(std::fmod(*a, *b)) == rest;
}
bool is_odd(const Value& v) { return leaves(v, Value(2), 1); }
bool is_even(const Value& v) { return leaves(v, Value(2), 0); }

bool divisibleby(Session&, const Value& operand, const Arguments& args) {
  const auto bound = bind("divisibleby", args, {"num"});
  return leaves(operand, bound[0].value_or(Value(0)), 0);
}

template <CompareOp op>
bool compared(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("the test", args, {"other"});
  if (!bound[0]) throw Fault{"the test needs a value to compare with"};
  return compare(session, op, operand, *bound[0]);
}

bool sameas(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("sameas", args, {"other"});
  if (!bound[0]) throw Fault{"sameas needs a value to compare with"};
  const Value& other = *bound[0];
  // Containers are the same when they are one; whether equal scalars are one object is Python's own affair.
  if (operand.as_list() || operand.as_dict()) {
    return operand.as_list() == other.as_list() && operand.as_dict() == other.as_dict();
  }
  return operand.variant().index() == other.variant().index() && is_equal(session, operand, other);
}

/// Has letters, and none that `other` would change: str.islower() and str.isupper().
bool has_case(Session& session, const Value& operand, Case same, Case other) {
  const Text held = to_text(session, operand);
  return change_case(session, held, same).bytes() == held.bytes() &&
         change_case(session, held, other).bytes() != held.bytes();
}
bool lower(Session& session, const Value& operand, const Arguments&) {
  return has_case(session, operand, Case::lower, Case::upper);
}
bool upper(Session& session, const Value& operand, const Arguments&) {
  return has_case(session, operand, Case::upper, Case::lower);
}

bool filter(Session& session, const Value& operand, const Arguments&) {
  return find_filter(to_text(session, operand).view()) != nullptr;
}
bool test(Session& session, const Value& operand, const Arguments&) {
  return find_test(to_text(session, operand).view()) != nullptr;
}

}  // namespace

std::span<const std::pair<std::string_view, Test>> all_tests() {
  static constexpr std::pair<std::string_view, Test> tests[] = {{"defined", plain<is_defined>},
                                                                {"undefined", plain<is_undefined>},
                                                                {"none", plain<is_none>},
                                                                {"string", plain<is_string>},
                                                                {"mapping", plain<is_mapping>},
                                                                {"iterable", plain<is_iterable>},
                                                                {"sequence", plain<is_sequence>},
                                                                {"boolean", plain<is_boolean>},
                                                                {"true", plain<is_true_itself>},
                                                                {"false", plain<is_false_itself>},
                                                                {"integer", plain<is_integer>},
                                                                {"float", plain<is_float>},
                                                                {"number", plain<is_number>},
                                                                {"callable", plain<is_callable>},
                                                                {"odd", plain<is_odd>},
                                                                {"even", plain<is_even>},
                                                                {"divisibleby", divisibleby},
                                                                {"sameas", sameas},
                                                                {"lower", lower},
                                                                {"upper", upper},
                                                                {"filter", filter},
                                                                {"test", test},
                                                                {"in", compared<CompareOp::in>},
                                                                {"eq", compared<CompareOp::equal>},
                                                                {"equalto", compared<CompareOp::equal>},
                                                                {"==", compared<CompareOp::equal>},
                                                                {"ne", compared<CompareOp::not_equal>},
                                                                {"!=", compared<CompareOp::not_equal>},
                                                                {"lt", compared<CompareOp::less>},
                                                                {"lessthan", compared<CompareOp::less>},
                                                                {"<", compared<CompareOp::less>},
                                                                {"le", compared<CompareOp::less_equal>},
                                                                {"<=", compared<CompareOp::less_equal>},
                                                                {"gt", compared<CompareOp::greater>},
                                                                {"greaterthan", compared<CompareOp::greater>},
                                                                {">", compared<CompareOp::greater>},
                                                                {"ge", compared<CompareOp::greater_equal>},
                                                                {">=", compared<CompareOp::greater_equal>}};
  return tests;
}

}  // namespace duoka::data::jinja
