// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "data/jinja/interpreter.h"
#include "data/jinja/print.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

constexpr size_t max_excerpt_bytes = 100;

/// Scopes are counted in loops and macros: the newest goes back when it is left.
class ScopeGuard {
 public:
  ScopeGuard(Session& session, const Scope* parent)
      : session_(session), kept_(session.scopes_kept()), scope_(session.new_scope(parent)) {}
  ~ScopeGuard() { session_.drop_scope(kept_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  Scope* get() const { return scope_; }

 private:
  Session& session_;
  int64_t kept_;
  Scope* scope_;
};

}  // namespace

Text Interpreter::run(Scope* variables) {
  ScopeGuard top(session_, variables);
  Text out;
  execute(program_.body, top.get(), out);
  return out;
}

std::string Interpreter::excerpt(size_t begin, size_t end) const {
  std::string shown = program_.normalized.substr(begin, std::min(end, begin + max_excerpt_bytes) - begin);
  std::replace(shown.begin(), shown.end(), '\n', ' ');
  shown.erase(shown.find_last_not_of(' ') + 1);
  return end - begin > max_excerpt_bytes ? shown + " …" : shown;
}

void Interpreter::fail(const std::string& why, int line, size_t begin, size_t end) const {
  throw FormatError(text(program_.origin, ":", line, ": ", why, ", in `", excerpt(begin, end), "`"));
}

Interpreter::Flow Interpreter::execute(const Block& block, Scope* scope, Text& out) {
  for (const auto& stmt : block) {
    const Flow flow = execute(*stmt, scope, out);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, Scope* scope, Text& out) {
  try {
    const Session::Level level(session_);
    session_.step();
    return std::visit([&](const auto& node) { return execute_node(stmt, node, scope, out); }, stmt.node);
  } catch (const Fault& fault) {
    fail(fault.why, stmt.line, stmt.begin, stmt.end);
  }
}

void Interpreter::print(const Text& text, Text& out) {
  session_.make_bytes(text.size(), out.size() + text.size());
  out.append(text);
}

Text Interpreter::capture(const Block& body, Scope* scope) {
  const ScopeGuard inner(session_, scope);
  Text out;
  execute(body, inner.get(), out);
  return out;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const DataStmt& node, Scope*, Text& out) {
  session_.make_bytes(node.text.size(), out.size() + node.text.size());
  out.append(std::string_view(node.text));
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const OutputStmt& node, Scope* scope, Text& out) {
  const Value value = evaluate(*node.value, scope);
  if (const Text* held = value.as_text()) {
    print(*held, out);
  } else {
    print(to_text(session_, value), out);
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const IfStmt& node, Scope* scope, Text& out) {
  for (const auto& [condition, body] : node.branches) {
    if (is_true(evaluate(*condition, scope))) return execute(body, scope, out);
  }
  return execute(node.otherwise, scope, out);
}

Values Interpreter::loop_items(const ForStmt& node, Scope* scope) {
  Values items = iterate(session_, evaluate(*node.items, scope));
  if (!node.filter) return items;
  Values kept;
  for (Value& item : items) {
    const ScopeGuard inner(session_, scope);
    assign(node.target, item, inner.get());
    if (is_true(evaluate(*node.filter, inner.get()))) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const ForStmt& node, Scope* scope, Text& out) {
  auto loop = std::make_shared<Loop>();
  loop->items = loop_items(node, scope);
  for (const Value& item : loop->items) loop->depth = std::max(loop->depth, depth_of(item) + 1);
  // Jinja's else belongs to a loop of which no round came to its end.
  bool is_any_whole = false;
  for (; loop->index < loop->items.size(); ++loop->index) {
    session_.step();
    const ScopeGuard inner(session_, scope);
    inner.get()->set("loop", Value(loop));
    assign(node.target, loop->items[loop->index], inner.get());
    const Flow flow = execute(node.body, inner.get(), out);
    if (flow == Flow::leave_loop) break;
    is_any_whole = is_any_whole || flow == Flow::next;
  }
  if (is_any_whole) return Flow::next;
  const ScopeGuard inner(session_, scope);
  return execute(node.otherwise, inner.get(), out);
}

void Interpreter::assign(const Target& target, const Value& value, Scope* scope) {
  if (!target.parts.empty()) {
    const Values items = iterate(session_, value);
    if (items.size() != target.parts.size()) {
      throw Fault{text("cannot unpack ", counted(static_cast<int64_t>(items.size()), "value"), " into ",
                       counted(static_cast<int64_t>(target.parts.size()), "name"))};
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
    return;
  }
  if (target.attribute.empty()) return scope->set(target.name, value);
  const Value* holder = scope->find(target.name);
  Namespace* space = holder ? holder->as_namespace() : nullptr;
  if (!space)
    throw Fault{text("only attributes of a namespace() can be set, and '", target.name, "' is none")};
  if (target.attribute[0] == '_') throw Fault{"a namespace's attributes cannot begin with '_'"};
  for (auto& [name, held] : space->attributes) {
    if (name == target.attribute) {
      held = value;
      return;
    }
  }
  space->attributes.emplace_back(target.attribute, value);
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const SetStmt& node, Scope* scope, Text&) {
  assign(node.target, evaluate(*node.value, scope), scope);
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const SetBlockStmt& node, Scope* scope, Text&) {
  assign(node.target, apply_filters(node.filters, capture(node.body, scope), scope), scope);
  return Flow::next;
}

Value Interpreter::define_macro(const MacroNode& macro, Scope* scope) {
  session_.keep_scopes();
  Callable callable{Callable::Kind::macro, macro.name, {}};
  callable.macro = &macro;
  callable.scope = scope;
  return std::make_shared<const Callable>(std::move(callable));
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const MacroStmt& node, Scope* scope, Text&) {
  scope->set(node.macro.name, define_macro(node.macro, scope));
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const CallStmt& node, Scope* scope, Text& out) {
  const auto& call_node = std::get<CallExpr>(node.call->node);
  const Value callee = evaluate(*call_node.callee, scope);
  Arguments arguments = evaluate_args(call_node.args, scope);
  arguments.named.emplace_back("caller", define_macro(node.caller, scope));
  print(to_text(session_, call(callee, arguments)), out);
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const FilterStmt& node, Scope* scope, Text& out) {
  print(to_text(session_, apply_filters(node.filters, capture(node.body, scope), scope)), out);
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const GenerationStmt& node, Scope* scope,
                                            Text& out) {
  Text inside = capture(node.body, scope);
  inside.mark_generation();
  print(inside, out);
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const WithStmt& node, Scope* scope, Text& out) {
  const ScopeGuard inner(session_, scope);
  for (const auto& [target, value] : node.values) assign(target, evaluate(*value, scope), inner.get());
  return execute(node.body, inner.get(), out);
}

Interpreter::Flow Interpreter::execute_node(const Stmt&, const LoopControlStmt& node, Scope*, Text&) {
  return node.is_break ? Flow::leave_loop : Flow::next_item;
}

void Interpreter::set_parameters(const MacroNode& macro, Arguments arguments, Scope* scope) {
  std::erase_if(arguments.named, [&](const auto& argument) {
    const bool is_caller = argument.first == "caller";
    if (is_caller) scope->set("caller", argument.second);
    return is_caller;
  });
  std::vector<std::string_view> names;
  for (const auto& parameter : macro.parameters) names.push_back(parameter.first);
  auto bound = jinja::bind(text("macro '", macro.name, "'"), arguments, names);
  for (size_t i = 0; i < names.size(); ++i) {
    const ExprPtr& otherwise = macro.parameters[i].second;
    if (!bound[i] && otherwise) bound[i] = evaluate(*otherwise, scope);
    scope->set(names[i], bound[i] ? std::move(*bound[i])
                                  : Value::undefined(text("parameter '", names[i], "' was not given")));
  }
}

Value Interpreter::call_macro(const Callable& callable, const Arguments& arguments) {
  const ScopeGuard inner(session_, callable.scope);
  set_parameters(*callable.macro, arguments, inner.get());
  Text out;
  execute(callable.macro->body, inner.get(), out);
  return session_.text(std::move(out));
}

}  // namespace duoka::data::jinja
