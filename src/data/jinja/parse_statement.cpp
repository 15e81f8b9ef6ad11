// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "data/jinja/parser.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

/// `count` up by one as long as it lives, and back to what it was.
class Within {
 public:
  explicit Within(int& count) : count_(count), before_(count) { ++count_; }
  ~Within() { count_ = before_; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  int& count_;
  int before_;
};

}  // namespace

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > max_parse_depth) parser_.fail("blocks and expressions nest too deeply");
}

const Token& Parser::ahead(size_t count) const { return tokens_[std::min(at_ + count, tokens_.size() - 1)]; }

Token Parser::take() {
  const Token& token = tokens_[at_];
  // The end stays current, so that running into it is an error message and not an overrun.
  if (token.kind != Token::Kind::end) ++at_;
  return token;
}

bool Parser::is_symbol(std::string_view symbol) const {
  return current().kind == Token::Kind::symbol && current().text == symbol;
}
bool Parser::is_name(std::string_view name) const {
  return current().kind == Token::Kind::name && current().text == name;
}
bool Parser::skip_symbol(std::string_view symbol) {
  const bool is_there = is_symbol(symbol);
  if (is_there) take();
  return is_there;
}
bool Parser::skip_name(std::string_view name) {
  const bool is_there = is_name(name);
  if (is_there) take();
  return is_there;
}
void Parser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail(text("expected '", symbol, "', found ", describe(current())));
}
void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail(text("expected '", name, "', found ", describe(current())));
}
std::string Parser::take_name(std::string_view what) {
  if (current().kind != Token::Kind::name) fail(text("expected ", what, ", found ", describe(current())));
  return take().text;
}
void Parser::expect_block_end() {
  if (current().kind != Token::Kind::block_end) fail(text("expected '%}', found ", describe(current())));
  take();
}

void Parser::fail_at(const Token& token, const std::string& why) const {
  throw FormatError(text(origin_, ":", token.line, ": ", why));
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
    case Token::Kind::data:
      return "text";
    case Token::Kind::variable_begin:
      return "'{{'";
    case Token::Kind::variable_end:
      return "'}}'";
    case Token::Kind::block_begin:
      return "'{%'";
    case Token::Kind::block_end:
      return "'%}'";
    case Token::Kind::string:
      return "a string";
    case Token::Kind::end:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

void Parser::add(Block& block, const Token& first, Stmt::Node node) {
  block.push_back(
      std::make_unique<const Stmt>(Stmt{std::move(node), first.line, first.begin, current().begin}));
}

Block Parser::parse_template() {
  Block body = parse_block({});
  if (current().kind != Token::Kind::end) fail(text("unexpected ", describe(current())));
  return body;
}

/// Statements up to a tag whose name is in `ends`; that name is then current.
Block Parser::parse_block(const std::vector<std::string_view>& ends) {
  Level level(*this);
  Block block;
  for (;;) {
    const Token token = current();
    if (token.kind == Token::Kind::data) {
      take();
      add(block, token, DataStmt{token.text});
    } else if (token.kind == Token::Kind::variable_begin) {
      take();
      ExprPtr value = parse_tuple_or_expression();
      if (current().kind != Token::Kind::variable_end)
        fail(text("expected '}}', found ", describe(current())));
      take();
      add(block, token, OutputStmt{std::move(value)});
    } else if (token.kind == Token::Kind::block_begin) {
      take();
      const Token& name = current();
      const bool is_end =
          name.kind == Token::Kind::name && std::find(ends.begin(), ends.end(), name.text) != ends.end();
      if (is_end) return block;
      parse_tag(block);
    } else {
      if (!ends.empty()) fail(text("expected {% ", ends.back(), " %}, found ", describe(token)));
      return block;
    }
  }
}

void Parser::parse_tag(Block& block) {
  const Token first = tokens_[at_ - 1];
  const Token name = current();
  const std::string tag = take_name("a tag's name");
  add(block, first, parse_named_tag(tag, name));
}

Stmt::Node Parser::parse_named_tag(const std::string& tag, const Token& token) {
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "generation") return parse_generation();
  if (tag == "with") return parse_with();
  if (tag == "break" || tag == "continue") return parse_loop_control(tag, token);
  if (tag.starts_with("end") || tag == "else" || tag == "elif") {
    fail_at(token, text("{% ", tag, " %} without its beginning"));
  }
  fail_at(token, text("unknown tag '", tag,
                      "'; known are if, for, set, macro, call, filter, with, raw, "
                      "generation, break and continue"));
}

Block Parser::parse_body(std::string_view end) {
  Block body = parse_block({end});
  expect_name(end);
  return body;
}

Stmt::Node Parser::parse_if() {
  const Within soft(num_soft_);
  IfStmt node;
  do {
    ExprPtr condition = parse_tuple_or_expression(false);
    expect_block_end();
    node.branches.emplace_back(std::move(condition), parse_block({"elif", "else", "endif"}));
  } while (skip_name("elif"));
  if (skip_name("else")) {
    expect_block_end();
    node.otherwise = parse_block({"endif"});
  }
  expect_name("endif");
  expect_block_end();
  return node;
}

Stmt::Node Parser::parse_for() {
  ForStmt node;
  node.target = parse_target(false);
  expect_name("in");
  node.items = parse_tuple_or_expression(false);
  if (skip_name("if")) node.filter = parse_expression();
  if (is_name("recursive")) fail("recursive loops are not supported; use a macro that calls itself");
  expect_block_end();
  {
    const Within loop(num_loops_);
    node.body = parse_block({"else", "endfor"});
  }
  if (skip_name("else")) {
    expect_block_end();
    node.otherwise = parse_block({"endfor"});
  }
  expect_name("endfor");
  expect_block_end();
  return node;
}

Stmt::Node Parser::parse_set() {
  Target target = parse_target(true);
  if (skip_symbol("=")) {
    ExprPtr value = parse_tuple_or_expression();
    expect_block_end();
    return SetStmt{std::move(target), std::move(value)};
  }
  ExprPtr filters = parse_filter_chain();
  expect_block_end();
  Block body = parse_body("endset");
  expect_block_end();
  return SetBlockStmt{std::move(target), std::move(filters), std::move(body)};
}

std::vector<std::pair<std::string, ExprPtr>> Parser::parse_parameters() {
  std::vector<std::pair<std::string, ExprPtr>> parameters;
  expect_symbol("(");
  while (!is_symbol(")")) {
    std::string name = take_name("a parameter's name");
    ExprPtr otherwise;
    if (skip_symbol("=")) {
      otherwise = parse_expression();
    } else if (!parameters.empty() && parameters.back().second) {
      fail("a parameter without a default follows one with a default");
    }
    parameters.emplace_back(std::move(name), std::move(otherwise));
    if (!skip_symbol(",")) break;
  }
  expect_symbol(")");
  return parameters;
}

Stmt::Node Parser::parse_macro() {
  // A macro's body is not in the loop around it.
  int loops = std::exchange(num_loops_, 0);
  MacroNode macro;
  macro.name = take_name("a macro's name");
  macro.parameters = parse_parameters();
  expect_block_end();
  macro.body = parse_body("endmacro");
  expect_block_end();
  num_loops_ = loops;
  return MacroStmt{std::move(macro)};
}

Stmt::Node Parser::parse_call_block() {
  int loops = std::exchange(num_loops_, 0);
  CallStmt node;
  node.caller.name = "caller";
  if (is_symbol("(")) node.caller.parameters = parse_parameters();
  const Token first = current();
  node.call = parse_expression();
  if (!std::holds_alternative<CallExpr>(node.call->node))
    fail_at(first, "{% call %} needs a call: {% call name() %}");
  expect_block_end();
  node.caller.body = parse_body("endcall");
  expect_block_end();
  num_loops_ = loops;
  return node;
}

Stmt::Node Parser::parse_filter_block() {
  FilterStmt node;
  // The first filter has no bar in front of it: let it look as if it had.
  --at_;
  tokens_[at_] = {Token::Kind::symbol, "|", tokens_[at_].begin, tokens_[at_].line};
  node.filters = parse_filter_chain();
  expect_block_end();
  node.body = parse_body("endfilter");
  expect_block_end();
  return node;
}

Stmt::Node Parser::parse_generation() {
  has_generation_ = true;
  int loops = std::exchange(num_loops_, 0);
  expect_block_end();
  GenerationStmt node{parse_body("endgeneration")};
  expect_block_end();
  num_loops_ = loops;
  return node;
}

Stmt::Node Parser::parse_with() {
  WithStmt node;
  while (current().kind != Token::Kind::block_end) {
    if (!node.values.empty()) expect_symbol(",");
    Target target = parse_single_target(false);
    expect_symbol("=");
    node.values.emplace_back(std::move(target), parse_expression());
  }
  expect_block_end();
  node.body = parse_body("endwith");
  expect_block_end();
  return node;
}

Stmt::Node Parser::parse_loop_control(const std::string& tag, const Token& token) {
  if (num_loops_ == 0) fail_at(token, text("{% ", tag, " %} outside of a loop"));
  expect_block_end();
  return LoopControlStmt{tag == "break"};
}

Target Parser::parse_target(bool with_attribute) {
  Target first = parse_single_target(with_attribute);
  if (!is_symbol(",")) return first;
  Target tuple;
  tuple.parts.push_back(std::move(first));
  while (skip_symbol(",")) {
    if (is_name("in") || is_symbol("=")) break;
    tuple.parts.push_back(parse_single_target(with_attribute));
  }
  return tuple;
}

Target Parser::parse_single_target(bool with_attribute) {
  if (skip_symbol("(")) {
    Level level(*this);
    Target inner = parse_target(with_attribute);
    expect_symbol(")");
    return inner;
  }
  const Token token = current();
  Target target;
  target.name = take_name("a name to assign to");
  static constexpr std::string_view reserved[] = {"true", "false", "none", "True", "False", "None", "loop"};
  if (std::find(std::begin(reserved), std::end(reserved), target.name) != std::end(reserved)) {
    fail_at(token, text("cannot assign to '", target.name, "'"));
  }
  if (with_attribute && skip_symbol(".")) target.attribute = take_name("an attribute's name");
  return target;
}

std::shared_ptr<const Program> parse(std::string source, std::string origin) {
  auto program = std::make_shared<Program>();
  program->origin = std::move(origin);
  program->source = std::move(source);
  program->normalized = normalized_source(program->source);
  Parser parser(tokenize(program->normalized, program->origin), program->origin);
  program->body = parser.parse_template();
  program->has_generation = parser.has_generation();
  return program;
}

}  // namespace duoka::data::jinja
