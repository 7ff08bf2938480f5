// Expressions: names, operators, calls.
#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/interpreter_guards.h"
#include "engine/data/jinja/python_text.h"

namespace recollect::jinja {

Value Interpreter::evaluate(const Node& node, Scope& scope) {
  using Kind = Node::Kind;
  const Depth depth(*this);
  line_ = node.line;
  spend(1);
  switch (node.kind) {
    case Kind::kConstant:
      return node.value;
    case Kind::kName:
      return evaluate_name(node, scope);
    case Kind::kTuple:
      return Value::tuple(evaluate_all(node.items, 0, scope));
    case Kind::kList:
      return Value::list(evaluate_all(node.items, 0, scope));
    case Kind::kDict: {
      auto dict = std::make_shared<Dict>();
      for (std::size_t i = 0; i < node.items.size(); i += 2) {
        Value key = evaluate(*node.items[i], scope);
        dict->set(std::move(key), evaluate(*node.items[i + 1], scope));
      }
      return Value(std::move(dict));
    }
    case Kind::kAttribute:
      return attribute_of(evaluate(*node.items[0], scope), node.name);
    case Kind::kItem:
      return evaluate_item(node, scope);
    case Kind::kCall: {
      const Value callee = evaluate(*node.items[0], scope);
      Arguments arguments = arguments_of(node, scope);
      line_ = node.line;
      return call(callee, arguments);
    }
    case Kind::kFilter:
    case Kind::kTest:
      return evaluate_applied(node, evaluate(*node.items[0], scope), scope);
    case Kind::kNot:
      return Value(!truth(evaluate(*node.items[0], scope)));
    case Kind::kNegative:
    case Kind::kPositive:
      return negated_number(evaluate(*node.items[0], scope), node.kind == Kind::kNegative);
    case Kind::kBinary: {
      const Value left = evaluate(*node.items[0], scope), right = evaluate(*node.items[1], scope);
      Value result = binary_result(node.name, left, right);
      spend(weight_of(result));
      return result;
    }
    case Kind::kAnd:
    case Kind::kOr: {
      Value left = evaluate(*node.items[0], scope);
      return truth(left) == (node.kind == Kind::kOr) ? left : evaluate(*node.items[1], scope);
    }
    case Kind::kCompare:
      return evaluate_compare(node, scope);
    case Kind::kJoin:
      return evaluate_joined(node, scope);
    case Kind::kConditional: {
      if (truth(evaluate(*node.items[0], scope))) return evaluate(*node.items[1], scope);
      if (node.items[2]) return evaluate(*node.items[2], scope);
      return Value::undefined(fmt::format(
          "the inline if-expression on line {} evaluated to false and no else section was defined",
          node.line));
    }
    default:
      throw TemplateFault("a slice stands where there is no list");
  }
}

Value Interpreter::evaluate_name(const Node& node, Scope& scope) {
  for (Scope* at = &scope; at; at = at->outer)
    if (const Value* found = at->find(node.name)) return *found;
  Value global = find_global(node.name);
  return global.is_undefined() ? Value::undefined(fmt::format("'{}' is undefined", node.name)) : global;
}

Value Interpreter::evaluate_compare(const Node& node, Scope& scope) {
  Value left = evaluate(*node.items[0], scope);
  for (const auto& [sign, operand] : node.named) {
    Value right = evaluate(*operand, scope);
    spend((weight_of(left) + weight_of(right)) / 8);
    if (!compare_result(sign, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_item(const Node& node, Scope& scope) {
  const Value of = evaluate(*node.items[0], scope);
  const Node& which = *node.items[1];
  if (which.kind != Node::Kind::kSlice) return item_of(of, evaluate(which, scope));
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    bounds[i] = which.items[i] ? evaluate(*which.items[i], scope) : Value(None{});
  spend(weight_of(of));
  return slice_of(of, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::evaluate_joined(const Node& node, Scope& scope) {
  std::string text;
  for (const NodePtr& item : node.items) print(evaluate(*item, scope), text);
  return Value(std::move(text));
}

std::vector<Value> Interpreter::evaluate_all(const Nodes& nodes, std::size_t from, Scope& scope) {
  std::vector<Value> values;
  values.reserve(nodes.size() - std::min(from, nodes.size()));
  for (std::size_t i = from; i < nodes.size(); ++i) values.push_back(evaluate(*nodes[i], scope));
  return values;
}

Arguments Interpreter::arguments_of(const Node& node, Scope& scope) {
  Arguments arguments{.values = evaluate_all(node.items, 1, scope)};
  for (const auto& [name, value] : node.named) {
    for (const auto& [other, before] : arguments.named)
      if (other == name) fail_type(fmt::format("the argument {} is given twice", name));
    arguments.named.emplace_back(name, evaluate(*value, scope));
  }
  if (node.star)
    for (Value& value : iterate(evaluate(*node.star, scope))) arguments.values.push_back(std::move(value));
  if (node.stars) {
    const Value more = evaluate(*node.stars, scope);
    if (!more.dict()) fail_type("what follows ** is no dict");
    for (const auto& [name, value] : more.dict()->items) {
      if (!name.is_text()) fail_type("keywords must be strings");
      if (arguments.find(SIZE_MAX, name.text()))
        fail_type(fmt::format("the argument {} is given twice", name.text()));
      arguments.named.emplace_back(name.text(), value);
    }
  }
  spend(arguments.values.size());
  return arguments;
}

Value Interpreter::evaluate_applied(const Node& node, const Value& of, Scope& scope) {
  Arguments arguments = arguments_of(node, scope);
  line_ = node.line;
  const bool test = node.kind == Node::Kind::kTest;
  const Builtin builtin = test ? find_test(node.name) : find_filter(node.name);
  require(builtin != nullptr, "a filter that the parser has let pass");
  if (!test) spend(weight_of(of));
  Value result = builtin(*this, of, arguments);
  if (!test) spend(weight_of(result) / 4);
  return result;
}

// The innermost filter is given what the block holds.
Value Interpreter::evaluate_filtered(const Node* node, Value of, Scope& scope) {
  if (!node) return of;
  return evaluate_applied(*node, evaluate_filtered(node->items[0].get(), std::move(of), scope), scope);
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) fail_undefined(callee);
  const Depth depth(*this);
  for (const Value& argument : arguments.values) spend(weight_of(argument) / 8);
  if (Loop* loop = callee.loop()) {
    if (!loop->recurse) fail_type("the loop is not recursive: write {% for ... recursive %}");
    arguments.check("loop", {"iterable"}, 1);
    return Value(loop->recurse(arguments.values.empty() ? arguments.named[0].second : arguments.values[0]));
  }
  Callable* callable = callee.callable();
  if (!callable) fail_type(fmt::format("'{}' object is not callable", type_name(callee)));
  const int line = line_;
  const std::function<Value(Interpreter&, Arguments&)> function = callable->call;
  Value result = function(*this, arguments);
  line_ = line;
  spend(weight_of(result) / 4);
  return result;
}

}  // namespace recollect::jinja
