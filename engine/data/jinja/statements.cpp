// Statements: what they write, and the scopes that they open.
#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/interpreter_guards.h"
#include "engine/data/jinja/lexer.h"
#include "engine/data/jinja/python_text.h"

namespace recollect::jinja {

Value* Scope::find(std::string_view name) {
  for (auto& [one, value] : names)
    if (one == name) return &value;
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  if (Value* found = find(name))
    *found = std::move(value);
  else
    names.emplace_back(name, std::move(value));
}

std::string Interpreter::run(const Nodes& body, const Dict& variables) {
  std::string out;
  root_ = &out;
  try {
    ScopeFor scope(*this, nullptr);
    for (const auto& [name, value] : variables.items) scope->set(name.text(), value);
    ScopeFor top(*this, &*scope);
    execute(body, *top, out);
  } catch (const TemplateFault& fault) {
    fail_in_template(name_, line_, fault.what(), fault.hint());
  }
  return out;
}

void Interpreter::spend(std::size_t steps) {
  constexpr std::size_t kMostSteps = 4'000'000;
  steps_ += steps;
  if (steps_ > kMostSteps)
    throw TemplateFault("the template does not come to an end: more than 4 million steps");
}

Namespace* Interpreter::make_namespace() {
  namespaces_.push_back(std::make_unique<Namespace>());
  return namespaces_.back().get();
}

Interpreter::Flow Interpreter::execute(const Nodes& body, Scope& scope, std::string& out) {
  for (const NodePtr& node : body)
    if (const Flow flow = execute(*node, scope, out); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Node& node, Scope& scope, std::string& out) {
  using Kind = Node::Kind;
  const Depth depth(*this);
  line_ = node.line;
  spend(1);
  switch (node.kind) {
    case Kind::kData:
      print(node.value, out);
      break;
    case Kind::kPrint:
      print(evaluate(*node.items[0], scope), out);
      break;
    case Kind::kIf:
      return execute_if(node, scope, out);
    case Kind::kFor:
      execute_for(node, evaluate(*node.items[1], scope), scope, out, 1);
      break;
    case Kind::kSet:
      assign(*node.items[0], evaluate(*node.items[1], scope), scope);
      break;
    case Kind::kSetBlock:
      execute_set_block(node, scope);
      break;
    case Kind::kMacro:
      scope.set(node.name, make_macro(node, scope, node.name));
      break;
    case Kind::kCallBlock:
      execute_call_block(node, scope, out);
      break;
    case Kind::kFilterBlock:
      print(evaluate_filtered(node.items[0].get(), Value(captured(node.body, scope)), scope), out);
      break;
    case Kind::kWith:
      execute_with(node, scope, out);
      break;
    case Kind::kGeneration:
      execute_generation(node, scope, out);
      break;
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    default:
      require(false, "a template's expression is carried out as a statement");
  }
  return Flow::kNext;
}

void Interpreter::print(const Value& value, std::string& out) {
  if (value.is_text()) {
    out += value.text();
    spend(value.text().size() / 64);
  } else {
    out += to_text(value);
  }
  check_bytes(out.size());
}

Interpreter::Flow Interpreter::execute_if(const Node& first, Scope& scope, std::string& out) {
  for (const Node* node = &first;;) {
    spend(1);
    line_ = node->line;
    if (truth(evaluate(*node->items[0], scope))) return execute(node->body, scope, out);
    const Nodes& otherwise = node->otherwise;
    if (otherwise.size() != 1 || otherwise[0]->kind != Node::Kind::kIf) return execute(otherwise, scope, out);
    node = otherwise[0].get();
  }
}

void Interpreter::execute_for(const Node& node, const Value& list, Scope& scope, std::string& out,
                              int64_t level) {
  const Node* condition = node.items[2].get();
  spend(weight_of(list));
  std::function<bool(const Value&)> takes;
  if (condition)
    takes = [this, condition, &node, &scope](const Value& item) {
      ScopeFor inner(*this, &scope);
      assign(*node.items[0], item, *inner);
      return truth(evaluate(*condition, *inner));
    };
  loops_.push_back(std::make_unique<Loop>(iterate(list), std::move(takes), level));
  Loop* loop = loops_.back().get();
  if (node.flag)
    loop->recurse = [this, &node, &scope, level](const Value& items) {
      std::string text;
      execute_for(node, items, scope, text, level + 1);
      return text;
    };
  bool empty = true;
  while (loop->next()) {
    empty = false;
    ScopeFor inner(*this, &scope);
    inner->set("loop", Value(loop));
    assign(*node.items[0], loop->item(), *inner);
    if (execute(node.body, *inner, out) == Flow::kBreak) break;
  }
  loop->end();
  if (!empty) return;
  ScopeFor inner(*this, &scope);
  execute(node.otherwise, *inner, out);
}

std::string Interpreter::captured(const Nodes& body, Scope& outer) {
  std::string text;
  ScopeFor inner(*this, &outer);
  execute(body, *inner, text);
  return text;
}

void Interpreter::execute_set_block(const Node& node, Scope& scope) {
  assign(*node.items[0], evaluate_filtered(node.items[1].get(), Value(captured(node.body, scope)), scope),
         scope);
}

void Interpreter::execute_with(const Node& node, Scope& scope, std::string& out) {
  ScopeFor inner(*this, &scope);
  std::vector<Value> values;
  for (std::size_t i = 1; i < node.items.size(); i += 2) values.push_back(evaluate(*node.items[i], scope));
  for (std::size_t i = 0; i < values.size(); ++i) assign(*node.items[2 * i], values[i], *inner);
  execute(node.body, *inner, out);
}

void Interpreter::execute_call_block(const Node& node, Scope& scope, std::string& out) {
  const Node& call_node = *node.items[0];
  const Value callee = evaluate(*call_node.items[0], scope);
  Arguments arguments = arguments_of(call_node, scope);
  arguments.named.emplace_back("caller", make_macro(node, scope, "caller"));
  print(call(callee, arguments), out);
}

void Interpreter::execute_generation(const Node& node, Scope& scope, std::string& out) {
  const std::string text = captured(node.body, scope);
  // Transformers counts what the template has written outside of macros and blocks that are kept.
  counted_points_ += points_of(std::string_view(*root_).substr(counted_bytes_));
  counted_bytes_ = root_->size();
  generations_.push_back({counted_points_, counted_points_ + points_of(text)});
  print(Value(text), out);
}

void Interpreter::assign(const Node& target, Value value, Scope& scope) {
  switch (target.kind) {
    case Node::Kind::kName:
      return scope.set(target.name, std::move(value));
    case Node::Kind::kField: {
      Value* found = nullptr;
      for (Scope* at = &scope; at && !found; at = at->outer) found = at->find(target.name);
      Namespace* space = found ? found->space() : nullptr;
      if (!space)
        throw TemplateFault(fmt::format("{} is no namespace: its fields cannot be set", target.name));
      const std::string& field = target.value.text();
      if (field.starts_with('_'))
        throw TemplateFault("fields of a namespace that begin with an underscore cannot be set");
      for (auto& [name, old] : space->items)
        if (name == field) {
          old = std::move(value);
          return;
        }
      space->items.emplace_back(field, std::move(value));
      return;
    }
    default: {
      const std::vector<Value> values = iterate(value);
      if (values.size() != target.items.size())
        throw TemplateFault(fmt::format("{} values for {} names", values.size(), target.items.size()));
      for (std::size_t i = 0; i < values.size(); ++i) assign(*target.items[i], values[i], scope);
    }
  }
}

Value Interpreter::make_macro(const Node& node, Scope& scope, std::string name) {
  for (Scope* at = &scope; at; at = at->outer) at->is_kept = true;
  return Value(std::make_shared<Callable>(
      Callable{name, [&node, &scope, name](Interpreter& interpreter, Arguments& arguments) {
                 return interpreter.call_macro(node, scope, name, arguments);
               }}));
}

Value Interpreter::call_macro(const Node& node, Scope& outer, const std::string& name, Arguments& arguments) {
  ScopeFor scope(*this, &outer);
  std::vector<bool> taken(arguments.named.size());
  for (std::size_t i = 0; i < node.named.size(); ++i) {
    const auto& [parameter, otherwise] = node.named[i];
    if (i < arguments.values.size()) {
      scope->set(parameter, arguments.values[i]);
      continue;
    }
    bool found = false;
    for (std::size_t j = 0; j < arguments.named.size(); ++j)
      if (arguments.named[j].first == parameter) {
        scope->set(parameter, arguments.named[j].second);
        found = taken[j] = true;
      }
    if (!found && otherwise)
      scope->set(parameter, evaluate(*otherwise, *scope));
    else if (!found)
      scope->set(parameter, Value::undefined(fmt::format("parameter '{}' was not provided", parameter)));
  }
  std::vector<Value> more;
  auto others = std::make_shared<Dict>();
  for (std::size_t i = node.named.size(); i < arguments.values.size(); ++i)
    more.push_back(arguments.values[i]);
  bool has_caller = false;
  for (std::size_t j = 0; j < arguments.named.size(); ++j) {
    if (taken[j]) continue;
    if (arguments.named[j].first == "caller") {
      scope->set("caller", arguments.named[j].second);
      has_caller = true;
    } else {
      others->set(Value(arguments.named[j].first), arguments.named[j].second);
    }
  }
  const int64_t used = node.value.integer();
  if (!more.empty() && !(used & kUsesVarargs))
    fail_type(fmt::format("macro '{}' takes not more than {} arguments", name, node.named.size()));
  if (!others->items.empty() && !(used & kUsesKwargs))
    fail_type(fmt::format("macro '{}' takes no keyword argument '{}'", name, others->items[0].first.text()));
  if (has_caller && !(used & kUsesCaller))
    fail_type(
        fmt::format("macro '{}' has no place for what a call block holds: it does not use caller", name));
  if (!has_caller && !scope->find("caller")) scope->set("caller", Value::undefined("No caller defined"));
  if (!scope->find("varargs")) scope->set("varargs", Value::tuple(std::move(more)));
  if (!scope->find("kwargs")) scope->set("kwargs", Value(others));
  std::string text;
  execute(node.body, *scope, text);
  return Value(std::move(text));
}

}  // namespace recollect::jinja
