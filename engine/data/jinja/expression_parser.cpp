#include <algorithm>

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/parser_state.h"

namespace recollect::jinja {

using NodeKind = Node::Kind;

namespace {

constexpr int kMostLevelsOfSource = 120, kMostHeight = 500;

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> of) {
  return std::find(of.begin(), of.end(), text) != of.end();
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMostLevelsOfSource) {
    --parser_.depth_;
    parser_.fail("brackets or blocks that lie too deep in one another");
  }
}

const TemplateToken& ExpressionParser::take() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::accept_sign(std::string_view sign) {
  if (!sees_sign(sign)) return false;
  take();
  return true;
}

bool ExpressionParser::accept_word(std::string_view word) {
  if (!sees_word(word)) return false;
  take();
  return true;
}

void ExpressionParser::expect_sign(std::string_view sign) {
  if (!accept_sign(sign)) fail(fmt::format("expected '{}', and there is {}", sign, shown(now())));
}

std::string ExpressionParser::expect_name() {
  if (!sees(Token::Kind::kName)) fail(fmt::format("expected a name, and there is {}", shown(now())));
  return take().text;
}

void ExpressionParser::fail(const std::string& what, const std::string& hint) const {
  fail_in_template(name_, now().line, what, hint);
}

std::string ExpressionParser::shown(const Token& token) {
  if (token.kind == Token::Kind::kName || token.kind == Token::Kind::kOperator ||
      token.kind == Token::Kind::kNumber)
    return fmt::format("'{}'", printable(token.text));
  return token.kind == Token::Kind::kData ? "text" : token.text;
}

NodePtr ExpressionParser::grown(NodePtr node) const {
  const auto under = [&](const NodePtr& part) {
    if (part) node->height = std::max(node->height, part->height + 1);
  };
  for (const NodePtr& item : node->items) under(item);
  for (const auto& [name, item] : node->named) under(item);
  under(node->star);
  under(node->stars);
  if (node->height > kMostHeight) fail_in_template(name_, node->line, "an expression of too many parts");
  return node;
}

NodePtr ExpressionParser::binary(NodeKind kind, NodePtr left, NodePtr right, std::string name) const {
  NodePtr node = make(kind, left->line);
  node->name = std::move(name);
  node->items.push_back(std::move(left));
  node->items.push_back(std::move(right));
  return grown(std::move(node));
}

NodePtr ExpressionParser::parse_expression(bool conditional) {
  const Level level(*this);
  NodePtr node = parse_or();
  if (!conditional) return node;
  while (sees_word("if")) {
    const int line = take().line;
    NodePtr choice = make(NodeKind::kConditional, line);
    choice->items.push_back(parse_or());
    choice->items.push_back(std::move(node));
    choice->items.push_back(accept_word("else") ? parse_expression() : nullptr);
    node = grown(std::move(choice));
  }
  return node;
}

NodePtr ExpressionParser::parse_or() {
  NodePtr left = parse_and();
  while (accept_word("or")) left = binary(NodeKind::kOr, std::move(left), parse_and());
  return left;
}

NodePtr ExpressionParser::parse_and() {
  NodePtr left = parse_not();
  while (accept_word("and")) left = binary(NodeKind::kAnd, std::move(left), parse_not());
  return left;
}

NodePtr ExpressionParser::parse_not() {
  if (!sees_word("not")) return parse_comparison();
  const Level level(*this);
  NodePtr node = make(NodeKind::kNot, take().line);
  node->items.push_back(parse_not());
  return grown(std::move(node));
}

NodePtr ExpressionParser::parse_comparison() {
  NodePtr first = parse_sum();
  NodePtr node;
  while (true) {
    std::string sign;
    if (sees(Token::Kind::kOperator) && is_one_of(now().text, {"==", "!=", "<", "<=", ">", ">="})) {
      sign = take().text;
    } else if (accept_word("in")) {
      sign = "in";
    } else if (sees_word("not") && ahead().kind == Token::Kind::kName && ahead().text == "in") {
      take();
      take();
      sign = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(NodeKind::kCompare, first->line);
      node->items.push_back(std::move(first));
    }
    node->named.emplace_back(sign, parse_sum());
  }
  return node ? grown(std::move(node)) : std::move(first);
}

NodePtr ExpressionParser::parse_sum() {
  NodePtr left = parse_joined();
  while (sees_sign("+") || sees_sign("-")) {
    std::string sign = take().text;
    left = binary(NodeKind::kBinary, std::move(left), parse_joined(), std::move(sign));
  }
  return left;
}

NodePtr ExpressionParser::parse_joined() {
  NodePtr first = parse_product();
  if (!sees_sign("~")) return first;
  NodePtr node = make(NodeKind::kJoin, first->line);
  node->items.push_back(std::move(first));
  while (accept_sign("~")) node->items.push_back(parse_product());
  return grown(std::move(node));
}

NodePtr ExpressionParser::parse_product() {
  NodePtr left = parse_power();
  while (sees_sign("*") || sees_sign("/") || sees_sign("//") || sees_sign("%")) {
    std::string sign = take().text;
    left = binary(NodeKind::kBinary, std::move(left), parse_power(), std::move(sign));
  }
  return left;
}

NodePtr ExpressionParser::parse_power() {
  NodePtr left = parse_unary();
  while (accept_sign("**")) left = binary(NodeKind::kBinary, std::move(left), parse_unary(), "**");
  return left;
}

NodePtr ExpressionParser::parse_unary(bool filters) {
  const Level level(*this);
  NodePtr node;
  if (sees_sign("-") || sees_sign("+")) {
    const Token& sign = take();
    node = make(sign.text == "-" ? NodeKind::kNegative : NodeKind::kPositive, sign.line);
    node->items.push_back(parse_unary(false));
    node = grown(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  if (!filters) return node;
  while (true) {
    if (sees_sign("|"))
      node = parse_filters(std::move(node));
    else if (sees_word("is"))
      node = parse_test(std::move(node));
    else if (sees_sign("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

NodePtr ExpressionParser::parse_primary(bool fields) {
  const Token token = now();
  if (sees_sign("[")) return parse_list();
  if (sees_sign("{")) return parse_dict();
  if (accept_sign("(")) {
    NodePtr node = parse_tuple(true, {}, true);
    expect_sign(")");
    return node;
  }
  NodePtr node = make(NodeKind::kConstant, token.line);
  switch (token.kind) {
    case Token::Kind::kName:
      take();
      if (is_one_of(token.text, {"true", "True", "false", "False"})) {
        node->value = Value(token.text == "true" || token.text == "True");
      } else if (is_one_of(token.text, {"none", "None"})) {
        node->value = None{};
      } else if (fields && accept_sign(".")) {
        node->kind = NodeKind::kField;
        node->name = token.text;
        node->value = Value(expect_name());
      } else {
        node->kind = NodeKind::kName;
        node->name = token.text;
        special_names_ |= token.text == "varargs"  ? kUsesVarargs
                          : token.text == "kwargs" ? kUsesKwargs
                          : token.text == "caller" ? kUsesCaller
                                                   : 0;
      }
      return node;
    case Token::Kind::kText: {
      std::string text;
      while (sees(Token::Kind::kText)) text += take().value.text();
      node->value = Value(std::move(text));
      return node;
    }
    case Token::Kind::kNumber:
      node->value = take().value;
      return node;
    default:
      fail(fmt::format("unexpected {}", shown(token)));
  }
}

NodePtr ExpressionParser::parse_tuple(bool conditional, std::string_view end, bool in_brackets) {
  const int line = now().line;
  Nodes items;
  bool is_tuple = false;
  while (true) {
    const bool ends = sees(Token::Kind::kPrintEnd) || sees(Token::Kind::kTagEnd) || sees_sign(")") ||
                      (!end.empty() && sees_word(end));
    if (ends) break;
    items.push_back(parse_expression(conditional));
    if (!accept_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !in_brackets) fail(fmt::format("expected a value, and there is {}", shown(now())));
  NodePtr node = make(NodeKind::kTuple, line);
  node->items = std::move(items);
  return grown(std::move(node));
}

// What is assigned to: names, a field of a namespace, or tuples of these.
NodePtr ExpressionParser::parse_target(std::string_view end, bool fields) {
  const int line = now().line;
  Nodes items;
  bool is_tuple = false;
  const auto check = [&](const Node& node, auto&& self) -> void {
    if (node.kind == NodeKind::kTuple || node.kind == NodeKind::kList)
      for (const NodePtr& item : node.items) self(*item, self);
    else if (node.kind != NodeKind::kName && node.kind != NodeKind::kField)
      fail_in_template(name_, node.line, "something is assigned to what is no name");
  };
  while (!sees(Token::Kind::kTagEnd) && !sees_sign(")") && (end.empty() || !sees_word(end))) {
    items.push_back(parse_primary(fields));
    check(*items.back(), check);
    if (!accept_sign(",")) break;
    is_tuple = true;
  }
  if (items.empty()) fail(fmt::format("expected a name, and there is {}", shown(now())));
  if (!is_tuple) return std::move(items.front());
  NodePtr node = make(NodeKind::kTuple, line);
  node->items = std::move(items);
  return grown(std::move(node));
}

NodePtr ExpressionParser::parse_list() {
  NodePtr node = make(NodeKind::kList, now().line);
  expect_sign("[");
  while (!sees_sign("]")) {
    node->items.push_back(parse_expression());
    if (!accept_sign(",")) break;
  }
  expect_sign("]");
  return grown(std::move(node));
}

NodePtr ExpressionParser::parse_dict() {
  NodePtr node = make(NodeKind::kDict, now().line);
  expect_sign("{");
  while (!sees_sign("}")) {
    node->items.push_back(parse_expression());
    expect_sign(":");
    node->items.push_back(parse_expression());
    if (!accept_sign(",")) break;
  }
  expect_sign("}");
  return grown(std::move(node));
}

NodePtr ExpressionParser::parse_postfix(NodePtr node) {
  while (true) {
    if (sees_sign(".") || sees_sign("["))
      node = parse_subscript(std::move(node));
    else if (sees_sign("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

NodePtr ExpressionParser::parse_subscript(NodePtr node) {
  const int line = now().line;
  if (accept_sign(".")) {
    if (sees(Token::Kind::kName)) {
      NodePtr field = make(NodeKind::kAttribute, line);
      field->name = take().text;
      field->items.push_back(std::move(node));
      return grown(std::move(field));
    }
    if (!sees(Token::Kind::kNumber) || !now().value.is<int64_t>())
      fail("expected a name or a number after '.'");
    NodePtr which = make(NodeKind::kConstant, line);
    which->value = take().value;
    return binary(NodeKind::kItem, std::move(node), std::move(which));
  }
  expect_sign("[");
  Nodes items;
  while (!sees_sign("]")) {
    items.push_back(parse_subscribed());
    if (!accept_sign(",")) break;
  }
  expect_sign("]");
  if (items.size() == 1) return binary(NodeKind::kItem, std::move(node), std::move(items.front()));
  NodePtr which = make(NodeKind::kTuple, line);
  which->items = std::move(items);
  return binary(NodeKind::kItem, std::move(node), grown(std::move(which)));
}

NodePtr ExpressionParser::parse_subscribed() {
  const int line = now().line;
  NodePtr first;
  if (!sees_sign(":")) {
    first = parse_expression();
    if (!sees_sign(":")) return first;
  }
  NodePtr slice = make(NodeKind::kSlice, line);
  slice->items.push_back(std::move(first));
  for (int i = 0; i < 2; ++i) {
    const bool there = accept_sign(":");
    const bool empty = sees_sign(":") || sees_sign("]") || sees_sign(",");
    slice->items.push_back(there && !empty ? parse_expression() : nullptr);
  }
  return grown(std::move(slice));
}

void ExpressionParser::parse_arguments(Node& call) {
  expect_sign("(");
  while (!sees_sign(")")) {
    if (accept_sign("**")) {
      if (call.stars) fail("two arguments with **");
      call.stars = parse_expression();
    } else if (call.stars) {
      fail("an argument follows one with **");
    } else if (accept_sign("*")) {
      if (call.star) fail("two arguments with *");
      call.star = parse_expression();
    } else if (sees(Token::Kind::kName) && ahead().kind == Token::Kind::kOperator && ahead().text == "=") {
      std::string name = take().text;
      take();
      call.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (call.star || !call.named.empty()) fail("an argument without a name follows one with a name");
      call.items.push_back(parse_expression());
    }
    if (!accept_sign(",")) break;
  }
  expect_sign(")");
}

NodePtr ExpressionParser::parse_call(NodePtr node) {
  NodePtr call = make(NodeKind::kCall, now().line);
  call->items.push_back(std::move(node));
  parse_arguments(*call);
  return grown(std::move(call));
}

NodePtr ExpressionParser::parse_filters(NodePtr of, bool begins_inside) {
  while (begins_inside || accept_sign("|")) {
    begins_inside = false;
    NodePtr filter = make(NodeKind::kFilter, now().line);
    filter->name = expect_name();
    while (accept_sign(".")) filter->name += "." + expect_name();
    if (!find_filter(filter->name))
      fail(fmt::format("the filter '{}' is not supported", printable(filter->name)),
           "filters are " + list_some(names_of_filters(), 60));
    filter->items.push_back(std::move(of));
    if (sees_sign("(")) parse_arguments(*filter);
    of = grown(std::move(filter));
  }
  return of;
}

NodePtr ExpressionParser::parse_test(NodePtr node) {
  NodePtr test = make(NodeKind::kTest, take().line);
  const bool negated = accept_word("not");
  test->name = expect_name();
  if (!find_test(test->name))
    fail(fmt::format("the test '{}' is not supported", printable(test->name)),
         "tests are " + list_some(names_of_tests(), 60));
  test->items.push_back(std::move(node));
  const bool begins_value = sees(Token::Kind::kName) || sees(Token::Kind::kText) ||
                            sees(Token::Kind::kNumber) || sees_sign("[") || sees_sign("{");
  if (sees_sign("(")) {
    parse_arguments(*test);
  } else if (begins_value && !sees_word("else") && !sees_word("or") && !sees_word("and")) {
    if (sees_word("is")) fail("two tests with 'is' after one another");
    // The words that follow a condition begin no value.
    test->items.push_back(parse_postfix(parse_primary()));
  }
  test = grown(std::move(test));
  if (!negated) return test;
  NodePtr negation = make(NodeKind::kNot, test->line);
  negation->items.push_back(std::move(test));
  return grown(std::move(negation));
}

}  // namespace recollect::jinja
