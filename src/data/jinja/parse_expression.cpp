// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>

#include "data/jinja/numbers.h"
#include "data/jinja/parser.h"
#include "data/jinja/registry.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {

namespace {

int height_of(const ExprPtr& expr) { return expr ? expr->height : 0; }

template <class A, class B>
int height_of(const std::pair<A, B>& pair) {
  if constexpr (std::is_same_v<A, ExprPtr>)
    return std::max(height_of(pair.first), height_of(pair.second));
  else
    return height_of(pair.second);
}

template <class Item>
int height_of(const std::vector<Item>& items) {
  int height = 0;
  for (const Item& item : items) height = std::max(height, height_of(item));
  return height;
}

int height_of(const CallArgs& args) { return std::max(height_of(args.positional), height_of(args.named)); }

struct HeightOfNode {
  int operator()(const Constant&) const { return 0; }
  int operator()(const NameRef&) const { return 0; }
  int operator()(const GetAttribute& n) const { return height_of(n.whole); }
  int operator()(const GetItem& n) const { return std::max(height_of(n.whole), height_of(n.key)); }
  int operator()(const SliceExpr& n) const {
    return std::max({height_of(n.whole), height_of(n.start), height_of(n.stop), height_of(n.step)});
  }
  int operator()(const CallExpr& n) const { return std::max(height_of(n.callee), height_of(n.args)); }
  int operator()(const FilterExpr& n) const { return std::max(height_of(n.operand), height_of(n.args)); }
  int operator()(const TestExpr& n) const { return std::max(height_of(n.operand), height_of(n.args)); }
  int operator()(const UnaryExpr& n) const { return height_of(n.operand); }
  int operator()(const BinaryExpr& n) const { return std::max(height_of(n.left), height_of(n.right)); }
  int operator()(const CompareExpr& n) const { return std::max(height_of(n.first), height_of(n.rest)); }
  int operator()(const LogicExpr& n) const { return std::max(height_of(n.left), height_of(n.right)); }
  int operator()(const ConcatExpr& n) const { return height_of(n.parts); }
  int operator()(const ConditionalExpr& n) const {
    return std::max({height_of(n.condition), height_of(n.value), height_of(n.otherwise)});
  }
  int operator()(const ListExpr& n) const { return height_of(n.items); }
  int operator()(const DictExpr& n) const { return height_of(n.entries); }
};

}  // namespace

ExprPtr Parser::make(int line, size_t begin, Expr::Node node) {
  const int height = 1 + std::visit(HeightOfNode{}, node);
  // Chains of operators grow the tree without recursion of the parser; walking and freeing it recurse.
  if (height > max_expression_height) {
    fail(text("an expression nests more than ", max_expression_height, " operators"));
  }
  return std::make_unique<const Expr>(Expr{std::move(node), line, begin, current().begin, height});
}

ExprPtr Parser::make(const Token& first, Expr::Node node) {
  return make(first.line, first.begin, std::move(node));
}

ExprPtr Parser::parse_expression() {
  Level level(*this);
  const Token first = current();
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ExprPtr condition = parse_or();
    ExprPtr otherwise;
    if (skip_name("else")) otherwise = parse_expression();
    value = make(first, ConditionalExpr{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExprPtr Parser::parse_or() {
  Level level(*this);
  const Token first = current();
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    ExprPtr right = parse_and();
    left = make(first, LogicExpr{false, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr Parser::parse_and() {
  Level level(*this);
  const Token first = current();
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    ExprPtr right = parse_not();
    left = make(first, LogicExpr{true, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  Level level(*this);
  const Token first = take();
  ExprPtr operand = parse_not();
  return make(first, UnaryExpr{UnaryOp::invert, std::move(operand)});
}

bool Parser::compare_op(CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> symbols[] = {
      {"==", CompareOp::equal},      {"!=", CompareOp::not_equal}, {"<", CompareOp::less},
      {"<=", CompareOp::less_equal}, {">", CompareOp::greater},    {">=", CompareOp::greater_equal}};
  for (const auto& [symbol, meaning] : symbols) {
    if (skip_symbol(symbol)) {
      op = meaning;
      return true;
    }
  }
  op = CompareOp::in;
  if (skip_name("in")) return true;
  const Token& next = ahead();
  if (!is_name("not") || next.kind != Token::Kind::name || next.text != "in") return false;
  take();
  take();
  op = CompareOp::not_in;
  return true;
}

ExprPtr Parser::parse_compare() {
  Level level(*this);
  const Token first = current();
  ExprPtr left = parse_sum();
  CompareExpr chain;
  CompareOp op{};
  while (compare_op(op)) chain.rest.emplace_back(op, parse_sum());
  if (chain.rest.empty()) return left;
  chain.first = std::move(left);
  return make(first, std::move(chain));
}

ExprPtr Parser::parse_sum() {
  Level level(*this);
  const Token first = current();
  ExprPtr left = parse_concat();
  while (is_symbol("+") || is_symbol("-")) {
    const BinaryOp op = take().text == "+" ? BinaryOp::add : BinaryOp::subtract;
    ExprPtr right = parse_concat();
    left = make(first, BinaryExpr{op, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  const Token first = current();
  ExprPtr left = parse_product();
  if (!is_symbol("~")) return left;
  ConcatExpr concat;
  concat.parts.push_back(std::move(left));
  while (skip_symbol("~")) concat.parts.push_back(parse_product());
  return make(first, std::move(concat));
}

ExprPtr Parser::parse_product() {
  static constexpr std::pair<std::string_view, BinaryOp> symbols[] = {{"*", BinaryOp::multiply},
                                                                      {"/", BinaryOp::divide},
                                                                      {"//", BinaryOp::floor_divide},
                                                                      {"%", BinaryOp::modulo}};
  Level level(*this);
  const Token first = current();
  ExprPtr left = parse_power();
  for (bool is_more = true; is_more;) {
    is_more = false;
    for (const auto& [symbol, op] : symbols) {
      if (!skip_symbol(symbol)) continue;
      ExprPtr right = parse_power();
      left = make(first, BinaryExpr{op, std::move(left), std::move(right)});
      is_more = true;
    }
  }
  return left;
}

ExprPtr Parser::parse_power() {
  Level level(*this);
  const Token first = current();
  ExprPtr left = parse_unary();
  while (skip_symbol("**")) {
    ExprPtr right = parse_unary();
    left = make(first, BinaryExpr{BinaryOp::power, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  Level level(*this);
  const Token first = current();
  ExprPtr node;
  if (skip_symbol("-")) {
    node = make(first, UnaryExpr{UnaryOp::negate, parse_unary(false)});
  } else if (skip_symbol("+")) {
    node = make(first, UnaryExpr{UnaryOp::plus, parse_unary(false)});
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_primary() {
  const Token token = current();
  const auto constant = [&](Value value) { return make(token, Constant{std::move(value)}); };
  switch (token.kind) {
    case Token::Kind::name: {
      take();
      if (token.text == "true" || token.text == "True") return constant(true);
      if (token.text == "false" || token.text == "False") return constant(false);
      if (token.text == "none" || token.text == "None") return constant(None{});
      return make(token, NameRef{token.text});
    }
    case Token::Kind::string: {
      std::string joined;
      while (current().kind == Token::Kind::string) joined += take().text;
      return constant(Value(std::move(joined)));
    }
    case Token::Kind::integer: {
      take();
      int64_t value = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec != std::errc{}) {
        fail_at(token, text("the number ", token.text, " does not fit into 64 bits"));
      }
      return constant(value);
    }
    case Token::Kind::floating: {
      take();
      return constant(read_float(token.text).value_or(0));
    }
    default:
      break;
  }
  if (is_symbol("(")) return parse_parenthesized();
  if (is_symbol("[")) return parse_list();
  if (is_symbol("{")) return parse_dict();
  fail(text("expected an expression, found ", describe(token)));
}

ExprPtr Parser::parse_parenthesized() {
  const Token first = take();
  if (skip_symbol(")")) return make(first, ListExpr{{}, true});
  ExprPtr inside = parse_tuple_or_expression();
  expect_symbol(")");
  return inside;
}

ExprPtr Parser::parse_tuple_or_expression(bool with_conditional) {
  const Token first = current();
  const auto item = [&] { return with_conditional ? parse_expression() : parse_or(); };
  ExprPtr value = item();
  if (!is_symbol(",")) return value;
  ListExpr tuple{{}, true};
  tuple.items.push_back(std::move(value));
  while (skip_symbol(",")) {
    const bool is_over = is_symbol(")") || current().kind == Token::Kind::block_end ||
                         current().kind == Token::Kind::variable_end;
    if (is_over) break;
    tuple.items.push_back(item());
  }
  return make(first, std::move(tuple));
}

ExprPtr Parser::parse_list() {
  const Token first = take();
  ListExpr list{{}, false};
  while (!is_symbol("]")) {
    list.items.push_back(parse_expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("]");
  return make(first, std::move(list));
}

ExprPtr Parser::parse_dict() {
  const Token first = take();
  DictExpr dict;
  while (!is_symbol("}")) {
    ExprPtr key = parse_expression();
    expect_symbol(":");
    dict.entries.emplace_back(std::move(key), parse_expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("}");
  return make(first, std::move(dict));
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  Level level(*this);
  for (;;) {
    if (is_symbol(".") || is_symbol("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_symbol("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr whole) {
  const int line = current().line;
  const size_t begin = whole->begin;
  const auto spanned = [&](Expr::Node node) { return make(line, begin, std::move(node)); };
  if (skip_symbol(".")) {
    const Token name = take();
    if (name.kind == Token::Kind::name) return spanned(GetAttribute{std::move(whole), name.text});
    if (name.kind != Token::Kind::integer)
      fail_at(name, text("expected a name behind '.', found ", describe(name)));
    int64_t index = 0;
    std::from_chars(name.text.data(), name.text.data() + name.text.size(), index);
    ExprPtr key = make(name, Constant{Value(index)});
    return spanned(GetItem{std::move(whole), std::move(key)});
  }
  expect_symbol("[");
  ExprPtr parts[3];
  size_t num_colons = 0;
  while (!is_symbol("]")) {
    if (skip_symbol(":")) {
      if (++num_colons > 2) fail("a slice has two colons at most");
    } else {
      if (parts[num_colons]) fail(text("expected ':' or ']', found ", describe(current())));
      parts[num_colons] = parse_expression();
    }
  }
  expect_symbol("]");
  if (num_colons > 0) {
    return spanned(
        SliceExpr{std::move(whole), std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
  }
  if (!parts[0]) fail("expected an index between [ and ]");
  return spanned(GetItem{std::move(whole), std::move(parts[0])});
}

CallArgs Parser::parse_call_args() {
  CallArgs args;
  expect_symbol("(");
  while (!is_symbol(")")) {
    if (is_symbol("*") || is_symbol("**"))
      fail("unpacking arguments with * is not supported; pass them one by one");
    const Token& next = ahead();
    if (current().kind == Token::Kind::name && next.kind == Token::Kind::symbol && next.text == "=") {
      std::string name = take().text;
      take();
      args.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!args.named.empty()) fail("a positional argument follows a named one");
      args.positional.push_back(parse_expression());
    }
    if (!skip_symbol(",")) break;
  }
  expect_symbol(")");
  return args;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  const int line = callee->line;
  const size_t begin = callee->begin;
  CallArgs args = parse_call_args();
  return make(line, begin, CallExpr{std::move(callee), std::move(args)});
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr node) {
  Level level(*this);
  for (;;) {
    if (is_symbol("|")) {
      node = parse_filter(std::move(node));
    } else if (is_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_symbol("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filter(ExprPtr operand) {
  take();
  const Token name = current();
  const size_t begin = operand ? operand->begin : name.begin;
  FilterExpr filter{std::move(operand), take_name("a filter's name"), {}};
  if (num_soft_ == 0 && !find_filter(filter.name)) fail_at(name, unknown_filter(filter.name));
  if (is_symbol("(")) filter.args = parse_call_args();
  return make(name.line, begin, std::move(filter));
}

ExprPtr Parser::parse_filter_chain() {
  ExprPtr node;
  while (is_symbol("|")) node = parse_filter(std::move(node));
  return node;
}

ExprPtr Parser::parse_test(ExprPtr operand) {
  take();
  TestExpr test;
  const size_t begin = operand->begin;
  test.operand = std::move(operand);
  test.is_negated = skip_name("not");
  const Token name = current();
  test.name = take_name("a test's name");
  if (num_soft_ == 0 && !find_test(test.name)) fail_at(name, unknown_test(test.name));
  const Token& next = current();
  if (is_name("is")) fail("tests cannot be chained; use 'and' between them");
  const bool is_word = next.kind == Token::Kind::name && next.text != "else" && next.text != "or" &&
                       next.text != "and" && next.text != "is" && next.text != "if" && next.text != "not" &&
                       next.text != "in";
  const bool is_literal = next.kind == Token::Kind::string || next.kind == Token::Kind::integer ||
                          next.kind == Token::Kind::floating || is_symbol("[") || is_symbol("{");
  if (is_symbol("(")) {
    test.args = parse_call_args();
  } else if (is_word || is_literal) {
    test.args.positional.push_back(parse_postfix(parse_primary()));
  }
  return make(name.line, begin, std::move(test));
}

}  // namespace duoka::data::jinja
