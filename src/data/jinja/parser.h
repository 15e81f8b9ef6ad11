// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/jinja/ast.h"
#include "data/jinja/lexer.h"

namespace duoka::data::jinja {

/// Recursive descent over Jinja's grammar: expressions in parse_expression.cpp, tags in
/// parse_statement.cpp.
class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& origin)
      : tokens_(std::move(tokens)), origin_(origin) {}

  /// The whole template.
  Block parse_template();
  bool has_generation() const { return has_generation_; }

 private:
  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead(size_t count = 1) const;
  Token take();
  bool is_symbol(std::string_view symbol) const;
  bool is_name(std::string_view name) const;
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  std::string take_name(std::string_view what);
  void expect_block_end();
  [[noreturn]] void fail(const std::string& why) const { fail_at(current(), why); }
  [[noreturn]] void fail_at(const Token& token, const std::string& why) const;
  std::string describe(const Token& token) const;

  /// One level of recursion, as long as it lives.
  class Level;

  // Expressions, loosest binding first.
  ExprPtr parse_expression();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_filter(ExprPtr operand);
  ExprPtr parse_filter_chain();
  ExprPtr parse_test(ExprPtr operand);
  ExprPtr parse_subscript(ExprPtr whole);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_parenthesized();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_tuple_or_expression(bool with_conditional = true);
  CallArgs parse_call_args();
  bool compare_op(CompareOp& op);
  ExprPtr make(const Token& first, Expr::Node node);
  ExprPtr make(int line, size_t begin, Expr::Node node);

  // Statements.
  Block parse_block(const std::vector<std::string_view>& ends);
  void parse_tag(Block& block);
  Stmt::Node parse_named_tag(const std::string& tag, const Token& token);
  Stmt::Node parse_if();
  Stmt::Node parse_for();
  Stmt::Node parse_set();
  Stmt::Node parse_macro();
  Stmt::Node parse_call_block();
  Stmt::Node parse_filter_block();
  Stmt::Node parse_generation();
  Stmt::Node parse_with();
  Stmt::Node parse_loop_control(const std::string& tag, const Token& token);
  Block parse_body(std::string_view end);
  std::vector<std::pair<std::string, ExprPtr>> parse_parameters();
  Target parse_target(bool with_attribute);
  Target parse_single_target(bool with_attribute);
  void add(Block& block, const Token& first, Stmt::Node node);

  std::vector<Token> tokens_;
  const std::string& origin_;
  size_t at_ = 0;
  int depth_ = 0;
  int num_soft_ = 0;   ///< If blocks around: there an unknown filter only fails when it is reached.
  int num_loops_ = 0;  ///< For blocks around, as seen by break and continue.
  bool has_generation_ = false;
};

class Parser::Level {
 public:
  explicit Level(Parser& parser);
  ~Level() { --parser_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Parser& parser_;
};

}  // namespace duoka::data::jinja
