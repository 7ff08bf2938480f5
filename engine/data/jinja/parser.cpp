#include "engine/data/jinja/parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/data/jinja/parser_state.h"

namespace recollect::jinja {
namespace {

class TemplateParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Nodes parse() { return parse_until({}); }

 private:
  using NodeKind = Node::Kind;
  using Words = std::initializer_list<std::string_view>;

  bool sees_any(Words words) const {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return sees_word(word); });
  }

  void end_tag() {
    if (!sees(Token::Kind::kTagEnd))
      fail(fmt::format("expected the tag's end, and there is {}", shown(now())));
    take();
  }

  // Up to a tag of one of these words, which is left where it is, after its {%.
  Nodes parse_until(Words words) {
    const Level level(*this);
    Nodes body;
    while (true) {
      switch (now().kind) {
        case Token::Kind::kData: {
          NodePtr data = make(NodeKind::kData, now().line);
          data->value = Value(take().text);
          body.push_back(std::move(data));
          break;
        }
        case Token::Kind::kPrintBegin: {
          NodePtr print = make(NodeKind::kPrint, take().line);
          print->items.push_back(parse_tuple());
          if (!sees(Token::Kind::kPrintEnd))
            fail(fmt::format("expected the end of {{{{ }}}}, and there is {}", shown(now())));
          take();
          body.push_back(std::move(print));
          break;
        }
        case Token::Kind::kTagBegin:
          take();
          if (words.size() > 0 && sees_any(words)) return body;
          body.push_back(parse_statement());
          end_tag();
          break;
        default:
          if (words.size() > 0)
            fail(fmt::format("the template ends, and {{% {} %}} is missing", *(words.end() - 1)));
          return body;
      }
    }
  }

  // A block's content, from the end of its tag to one of the words.
  Nodes parse_body(Words words) {
    accept_sign(":");
    end_tag();
    return parse_until(words);
  }
  Nodes parse_block(std::string_view end) {
    Nodes body = parse_body({end});
    take();
    return body;
  }

  NodePtr parse_statement() {
    if (!sees(Token::Kind::kName))
      fail(fmt::format("expected the name of a tag, and there is {}", shown(now())));
    const Token token = now();
    const std::string& word = token.text;
    take();
    const int line = token.line;
    if (word == "if") return parse_if(line);
    if (word == "for") return parse_for(line);
    if (word == "set") return parse_set(line);
    if (word == "macro") return parse_macro(line);
    if (word == "call") return parse_call_block(line);
    if (word == "with") return parse_with(line);
    if (word == "filter") {
      NodePtr node = make(NodeKind::kFilterBlock, line);
      node->items.push_back(parse_filters(nullptr, true));
      node->body = parse_block("endfilter");
      return node;
    }
    if (word == "generation") {
      NodePtr node = make(NodeKind::kGeneration, line);
      node->body = parse_block("endgeneration");
      return node;
    }
    if (word == "print") {
      NodePtr node = make(NodeKind::kJoin, line);
      while (!sees(Token::Kind::kTagEnd)) {
        node->items.push_back(parse_expression());
        if (!accept_sign(",")) break;
      }
      NodePtr print = make(NodeKind::kPrint, line);
      print->items.push_back(std::move(node));
      return print;
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0) fail_in_template(name_, line, fmt::format("{{% {} %}} outside of a loop", word));
      return make(word == "break" ? NodeKind::kBreak : NodeKind::kContinue, line);
    }
    fail_in_template(
        name_, line, fmt::format("the tag '{}' is not supported", printable(word)),
        "tags are if, for, set, macro, call, with, filter, generation, break, continue, print and raw");
  }

  NodePtr parse_if(int line) {
    NodePtr node = make(NodeKind::kIf, line);
    Node* last = node.get();
    while (true) {
      last->items.push_back(parse_tuple(false));
      last->body = parse_body({"elif", "else", "endif"});
      const std::string word = take().text;
      if (word == "endif") return node;
      if (word == "else") {
        last->otherwise = parse_block("endif");
        return node;
      }
      last->otherwise.push_back(make(NodeKind::kIf, now().line));
      last = last->otherwise.back().get();
      // A chain of elif is as deep as it is long.
      if (++chain_ > kLongestChain) fail("too many elif");
    }
  }

  NodePtr parse_for(int line) {
    NodePtr node = make(NodeKind::kFor, line);
    node->items.push_back(parse_target("in", false));
    if (!accept_word("in")) fail(fmt::format("expected 'in', and there is {}", shown(now())));
    node->items.push_back(parse_tuple(false, "recursive"));
    node->items.push_back(accept_word("if") ? parse_expression() : nullptr);
    node->flag = accept_word("recursive");
    ++loops_;
    node->body = parse_body({"else", "endfor"});
    --loops_;
    if (take().text == "else") node->otherwise = parse_block("endfor");
    return node;
  }

  NodePtr parse_set(int line) {
    NodePtr target = parse_target({}, true);
    const bool block = !accept_sign("=");
    NodePtr node = make(block ? NodeKind::kSetBlock : NodeKind::kSet, line);
    node->items.push_back(std::move(target));
    if (!block) {
      node->items.push_back(parse_tuple());
      return node;
    }
    node->items.push_back(parse_filters(nullptr));
    node->body = parse_block("endset");
    return node;
  }

  void parse_parameters(Node& node) {
    expect_sign("(");
    bool defaults = false;
    while (!sees_sign(")")) {
      std::string name = expect_name();
      for (const auto& [other, value] : node.named)
        if (other == name) fail(fmt::format("two parameters are called {}", printable(name)));
      NodePtr otherwise = accept_sign("=") ? parse_expression() : nullptr;
      if (defaults && !otherwise) fail("a parameter without a value follows one with a value");
      defaults = otherwise != nullptr;
      node.named.emplace_back(std::move(name), std::move(otherwise));
      if (!accept_sign(",")) break;
    }
    expect_sign(")");
  }

  // A macro is no part of the loop that it stands in.
  void parse_apart(Node& node, std::string_view end) {
    const int loops = std::exchange(loops_, 0), names = std::exchange(special_names_, 0);
    node.body = parse_block(end);
    node.value = Value(std::exchange(special_names_, names));
    loops_ = loops;
  }

  NodePtr parse_macro(int line) {
    NodePtr node = make(NodeKind::kMacro, line);
    node->name = expect_name();
    parse_parameters(*node);
    parse_apart(*node, "endmacro");
    return node;
  }

  NodePtr parse_call_block(int line) {
    NodePtr node = make(NodeKind::kCallBlock, line);
    if (sees_sign("(")) parse_parameters(*node);
    node->items.push_back(parse_expression());
    if (node->items[0]->kind != NodeKind::kCall) fail_in_template(name_, line, "{% call %} without a call");
    parse_apart(*node, "endcall");
    return node;
  }

  NodePtr parse_with(int line) {
    NodePtr node = make(NodeKind::kWith, line);
    while (!sees(Token::Kind::kTagEnd)) {
      node->items.push_back(parse_one_target());
      expect_sign("=");
      node->items.push_back(parse_expression());
      if (!accept_sign(",")) break;
    }
    node->body = parse_block("endwith");
    return node;
  }

  NodePtr parse_one_target() {
    NodePtr name = make(NodeKind::kName, now().line);
    name->name = expect_name();
    return name;
  }

  static constexpr int kLongestChain = 2000;
  int loops_ = 0, chain_ = 0;
};

}  // namespace

Nodes parse_template(std::string_view source, const std::string& name) {
  return TemplateParser(tokens_of_template(source, name), name).parse();
}

}  // namespace recollect::jinja
