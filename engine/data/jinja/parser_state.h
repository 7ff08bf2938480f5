// What the two halves of the parser share: the tokens, and where they have come to.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/jinja/lexer.h"
#include "engine/data/jinja/syntax.h"

namespace recollect::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<TemplateToken> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

 protected:
  using Token = TemplateToken;

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take();
  bool sees(Token::Kind kind) const { return now().kind == kind; }
  bool sees_sign(std::string_view sign) const { return sees(Token::Kind::kOperator) && now().text == sign; }
  bool sees_word(std::string_view word) const { return sees(Token::Kind::kName) && now().text == word; }
  bool accept_sign(std::string_view sign);
  bool accept_word(std::string_view word);
  void expect_sign(std::string_view sign);
  std::string expect_name();
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const;
  static std::string shown(const Token& token);
  NodePtr make(Node::Kind kind, int line) const {
    return std::make_unique<Node>(Node{.kind = kind, .line = line});
  }

  // The node, all parts of which are there. An error where the tree grows too high.
  NodePtr grown(NodePtr node) const;
  NodePtr parse_expression(bool conditional = true);
  // Of one item without commas that item itself. Ends before a word of `end`.
  NodePtr parse_tuple(bool conditional = true, std::string_view end = {}, bool in_brackets = false);
  NodePtr parse_target(std::string_view end, bool fields);
  NodePtr parse_filters(NodePtr of, bool begins_inside = false);

  // One level deeper for as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  std::vector<TemplateToken> tokens_;
  const std::string& name_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int special_names_ = 0;  // kUses... of the macro that is being read

 private:
  NodePtr parse_or();
  NodePtr parse_and();
  NodePtr parse_not();
  NodePtr parse_comparison();
  NodePtr parse_sum();
  NodePtr parse_joined();
  NodePtr parse_product();
  NodePtr parse_power();
  NodePtr parse_unary(bool filters = true);
  NodePtr parse_primary(bool fields = false);
  NodePtr parse_list();
  NodePtr parse_dict();
  NodePtr parse_postfix(NodePtr node);
  NodePtr parse_subscript(NodePtr node);
  NodePtr parse_subscribed();
  void parse_arguments(Node& call);
  NodePtr parse_call(NodePtr node);
  NodePtr parse_test(NodePtr node);
  NodePtr binary(Node::Kind kind, NodePtr left, NodePtr right, std::string name = {}) const;
};

}  // namespace recollect::jinja
