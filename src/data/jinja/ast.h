// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/jinja/operators.h"
#include "data/jinja/value.h"

namespace duoka::data::jinja {

// The parsed template. Immutable once made; shared by all renderings.

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

/// Arguments of a call, a filter or a test.
struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

struct Constant {
  Value value;
};
struct NameRef {
  std::string name;
};
struct GetAttribute {
  ExprPtr whole;
  std::string name;
};
struct GetItem {
  ExprPtr whole;
  ExprPtr key;
};
/// whole[start:stop:step]; null where left out.
struct SliceExpr {
  ExprPtr whole;
  ExprPtr start, stop, step;
};
struct CallExpr {
  ExprPtr callee;
  CallArgs args;
};
/// operand | name(args). A null operand stands for the text of a filter block.
struct FilterExpr {
  ExprPtr operand;
  std::string name;
  CallArgs args;
};
struct TestExpr {
  ExprPtr operand;
  std::string name;
  CallArgs args;
  bool is_negated = false;
};
enum class UnaryOp { negate, plus, invert };
struct UnaryExpr {
  UnaryOp op;
  ExprPtr operand;
};
struct BinaryExpr {
  BinaryOp op;
  ExprPtr left, right;
};
/// first op operand [op operand …]: a chain as in Python.
struct CompareExpr {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
/// `and` / `or`: the value of the operand that decides.
struct LogicExpr {
  bool is_and;
  ExprPtr left, right;
};
/// a ~ b ~ …: the operands as text.
struct ConcatExpr {
  std::vector<ExprPtr> parts;
};
/// `otherwise` may be null: undefined.
struct ConditionalExpr {
  ExprPtr condition, value, otherwise;
};
struct ListExpr {
  std::vector<ExprPtr> items;
  bool is_tuple;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};

struct Expr {
  using Node = std::variant<Constant, NameRef, GetAttribute, GetItem, SliceExpr, CallExpr, FilterExpr,
                            TestExpr, UnaryExpr, BinaryExpr, CompareExpr, LogicExpr, ConcatExpr,
                            ConditionalExpr, ListExpr, DictExpr>;
  Node node;
  int line = 1;
  size_t begin = 0, end = 0;  ///< Its text in the source, for messages.
  int height = 1;             ///< Of the tree below, itself counted.
};

struct Stmt;
using Block = std::vector<std::unique_ptr<const Stmt>>;

/// What `set` and `for` assign to: a name, an attribute of a namespace, or several of these.
struct Target {
  std::string name;
  std::string attribute;      ///< Non-empty: name.attribute.
  std::vector<Target> parts;  ///< Non-empty: a tuple, `name` unused.
};

struct DataStmt {
  std::string text;
};
struct OutputStmt {
  ExprPtr value;
};
struct IfStmt {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct ForStmt {
  Target target;
  ExprPtr items;
  ExprPtr filter;  ///< May be null.
  Block body, otherwise;
};
struct SetStmt {
  Target target;
  ExprPtr value;
};
/// {% set x [| filters] %} … {% endset %}
struct SetBlockStmt {
  Target target;
  ExprPtr filters;  ///< May be null.
  Block body;
};
struct MacroNode {
  std::string name;
  std::vector<std::pair<std::string, ExprPtr>> parameters;  ///< With the default or null.
  Block body;
};
struct MacroStmt {
  MacroNode macro;
};
/// {% call [(parameters)] callee(…) %} … {% endcall %}; the body is `caller`.
struct CallStmt {
  MacroNode caller;
  ExprPtr call;
};
struct FilterStmt {
  ExprPtr filters;
  Block body;
};
struct GenerationStmt {
  Block body;
};
struct WithStmt {
  std::vector<std::pair<Target, ExprPtr>> values;
  Block body;
};
struct LoopControlStmt {
  bool is_break;
};

struct Stmt {
  using Node = std::variant<DataStmt, OutputStmt, IfStmt, ForStmt, SetStmt, SetBlockStmt, MacroStmt, CallStmt,
                            FilterStmt, GenerationStmt, WithStmt, LoopControlStmt>;
  Node node;
  int line = 1;
  size_t begin = 0, end = 0;  ///< Its tag in the source.
};

/// A parsed template with its source.
struct Program {
  std::string origin;
  std::string source;      ///< As given.
  std::string normalized;  ///< What offsets refer to.
  Block body;
  bool has_generation = false;
};

/// A chain of n operators counts n.
inline constexpr int max_expression_height = 250;
/// Recursion of the parser: about ten for a pair of parentheses, two for a block. A level takes up to 8 KiB of
/// stack with sanitizers and a quarter of that without, and threads have 8 MiB or less.
inline constexpr int max_parse_depth = 500;

/// Throws FormatError "origin:line: why".
std::shared_ptr<const Program> parse(std::string source, std::string origin);

}  // namespace duoka::data::jinja
