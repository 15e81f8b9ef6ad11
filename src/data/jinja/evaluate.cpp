// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "data/jinja/interpreter.h"
#include "data/jinja/print.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {

Value Interpreter::evaluate(const Expr& expr, const Scope* scope) {
  try {
    const Session::Level level(session_);
    session_.step();
    return std::visit([&](const auto& node) { return evaluate_node(expr, node, scope); }, expr.node);
  } catch (const Fault& fault) {
    fail(fault.why, expr.line, expr.begin, expr.end);
  } catch (const Refusal& refusal) {
    throw DataError(text("the chat template refuses the conversation: ", refusal.why, " (", program_.origin,
                         ":", expr.line, ")"));
  }
}

Value Interpreter::evaluate_optional(const ExprPtr& expr, const Scope* scope) {
  return expr ? evaluate(*expr, scope) : Value(None{});
}

Value Interpreter::evaluate_node(const Expr&, const Constant& node, const Scope*) { return node.value; }

Value Interpreter::evaluate_node(const Expr&, const NameRef& node, const Scope* scope) {
  if (const Value* found = scope->find(node.name)) return *found;
  if (find_global(node.name)) {
    return std::make_shared<const Callable>(Callable{Callable::Kind::global, node.name, {}});
  }
  return Value::undefined(text("'", node.name, "' is undefined"));
}

Value Interpreter::evaluate_node(const Expr&, const GetAttribute& node, const Scope* scope) {
  return get_attribute(session_, evaluate(*node.whole, scope), node.name);
}

Value Interpreter::evaluate_node(const Expr&, const GetItem& node, const Scope* scope) {
  const Value whole = evaluate(*node.whole, scope);
  return get_subscript(session_, whole, evaluate(*node.key, scope));
}

Value Interpreter::evaluate_node(const Expr&, const SliceExpr& node, const Scope* scope) {
  const Value whole = evaluate(*node.whole, scope);
  const Value start = evaluate_optional(node.start, scope);
  const Value stop = evaluate_optional(node.stop, scope);
  return slice(session_, whole, start, stop, evaluate_optional(node.step, scope));
}

Arguments Interpreter::evaluate_args(const CallArgs& args, const Scope* scope) {
  Arguments out;
  for (const ExprPtr& expr : args.positional) out.positional.push_back(evaluate(*expr, scope));
  for (const auto& [name, expr] : args.named) out.named.emplace_back(name, evaluate(*expr, scope));
  return out;
}

Value Interpreter::evaluate_node(const Expr&, const CallExpr& node, const Scope* scope) {
  const Value callee = evaluate(*node.callee, scope);
  return call(callee, evaluate_args(node.args, scope));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) fail_undefined(callee);
  const Callable* callable = callee.as_callable();
  if (!callable) throw Fault{text("a value of type ", type_name(callee), " cannot be called")};
  switch (callable->kind) {
    case Callable::Kind::macro:
      return call_macro(*callable, arguments);
    case Callable::Kind::method:
      return call_method(session_, callable->self, callable->name, arguments);
    case Callable::Kind::global:
      break;
  }
  return find_global(callable->name)(session_, arguments);
}

Value Interpreter::evaluate_node(const Expr&, const FilterExpr& node, const Scope* scope) {
  const Value operand = node.operand ? evaluate(*node.operand, scope) : *filter_block_text_;
  const Filter filter = find_filter(node.name);
  if (!filter) throw Fault{unknown_filter(node.name)};
  return filter(session_, operand, evaluate_args(node.args, scope));
}

Value Interpreter::apply_filters(const ExprPtr& filters, Text text, const Scope* scope) {
  Value block = session_.text(std::move(text));
  if (!filters) return block;
  const Value* before = std::exchange(filter_block_text_, &block);
  Value result = evaluate(*filters, scope);
  filter_block_text_ = before;
  return result;
}

Value Interpreter::evaluate_node(const Expr&, const TestExpr& node, const Scope* scope) {
  const Value operand = evaluate(*node.operand, scope);
  const Test test = find_test(node.name);
  if (!test) throw Fault{unknown_test(node.name)};
  return test(session_, operand, evaluate_args(node.args, scope)) != node.is_negated;
}

Value Interpreter::evaluate_node(const Expr&, const UnaryExpr& node, const Scope* scope) {
  const Value operand = evaluate(*node.operand, scope);
  if (node.op == UnaryOp::invert) return !is_true(operand);
  const Value negated = negate(operand);
  return node.op == UnaryOp::negate ? negated : negate(negated);
}

Value Interpreter::evaluate_node(const Expr&, const BinaryExpr& node, const Scope* scope) {
  const Value left = evaluate(*node.left, scope);
  return binary(session_, node.op, left, evaluate(*node.right, scope));
}

Value Interpreter::evaluate_node(const Expr&, const CompareExpr& node, const Scope* scope) {
  Value left = evaluate(*node.first, scope);
  for (const auto& [op, expr] : node.rest) {
    Value right = evaluate(*expr, scope);
    if (!compare(session_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_node(const Expr&, const LogicExpr& node, const Scope* scope) {
  Value left = evaluate(*node.left, scope);
  return is_true(left) == node.is_and ? evaluate(*node.right, scope) : left;
}

Value Interpreter::evaluate_node(const Expr&, const ConcatExpr& node, const Scope* scope) {
  Text out;
  for (const ExprPtr& part : node.parts) print(to_text(session_, evaluate(*part, scope)), out);
  return out;
}

Value Interpreter::evaluate_node(const Expr&, const ConditionalExpr& node, const Scope* scope) {
  if (is_true(evaluate(*node.condition, scope))) return evaluate(*node.value, scope);
  if (node.otherwise) return evaluate(*node.otherwise, scope);
  return Value::undefined("the inline if has no else, and its condition is false");
}

Value Interpreter::evaluate_node(const Expr&, const ListExpr& node, const Scope* scope) {
  Values items;
  for (const ExprPtr& item : node.items) items.push_back(evaluate(*item, scope));
  return make_list(std::move(items), node.is_tuple ? List::Kind::tuple : List::Kind::list);
}

Value Interpreter::evaluate_node(const Expr&, const DictExpr& node, const Scope* scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, value] : node.entries) {
    Value made_key = evaluate(*key, scope);
    entries.emplace_back(std::move(made_key), evaluate(*value, scope));
  }
  return make_dict(std::move(entries));
}

}  // namespace duoka::data::jinja
