// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "data/jinja/ast.h"
#include "data/jinja/registry.h"
#include "data/jinja/session.h"

namespace duoka::data::jinja {

/// Runs a program once. Statements in execute.cpp, expressions in evaluate.cpp.
class Interpreter {
 public:
  Interpreter(const Program& program, Session& session) : program_(program), session_(session) {}

  /// Throws FormatError with line and expression, DataError for raise_exception.
  Text run(Scope* variables);

 private:
  enum class Flow { next, leave_loop, next_item };

  Flow execute(const Block& block, Scope* scope, Text& out);
  Flow execute(const Stmt& stmt, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const DataStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const OutputStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const IfStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const ForStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const SetStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const SetBlockStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const MacroStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const CallStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const FilterStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const GenerationStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const WithStmt& node, Scope* scope, Text& out);
  Flow execute_node(const Stmt& stmt, const LoopControlStmt& node, Scope* scope, Text& out);

  void print(const Text& text, Text& out);
  /// What `body` prints, in a scope of its own.
  Text capture(const Block& body, Scope* scope);
  void assign(const Target& target, const Value& value, Scope* scope);
  Values loop_items(const ForStmt& node, Scope* scope);
  Value define_macro(const MacroNode& macro, Scope* scope);
  Value call_macro(const Callable& callable, const Arguments& arguments);
  void set_parameters(const MacroNode& macro, Arguments arguments, Scope* scope);

  Value evaluate(const Expr& expr, const Scope* scope);
  Value evaluate_node(const Expr& expr, const Constant& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const NameRef& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const GetAttribute& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const GetItem& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const SliceExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const CallExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const FilterExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const TestExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const UnaryExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const BinaryExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const CompareExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const LogicExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const ConcatExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const ConditionalExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const ListExpr& node, const Scope* scope);
  Value evaluate_node(const Expr& expr, const DictExpr& node, const Scope* scope);

  Arguments evaluate_args(const CallArgs& args, const Scope* scope);
  Value call(const Value& callee, const Arguments& arguments);
  /// The value of `expr` in `scope`, none for null.
  Value evaluate_optional(const ExprPtr& expr, const Scope* scope);
  /// `filters` applied to `text`; the text itself when null.
  Value apply_filters(const ExprPtr& filters, Text text, const Scope* scope);
  /// The text between two offsets of the source, shortened for a message.
  std::string excerpt(size_t begin, size_t end) const;
  [[noreturn]] void fail(const std::string& why, int line, size_t begin, size_t end) const;

  const Program& program_;
  Session& session_;
  const Value* filter_block_text_ = nullptr;  ///< Operand of the filter chain being applied to a block.
};

}  // namespace duoka::data::jinja
