// Carries a template out. What it computes is bounded: steps, depth and the size of texts, so that no template runs for ever.
// Scopes are those of Jinja: a for, a macro and a with have names of their own, an if has none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/jinja/loop.h"
#include "engine/data/jinja/syntax.h"

namespace recollect::jinja {

struct Scope {
  Scope* outer = nullptr;
  std::vector<std::pair<std::string_view, Value>> names = {};
  bool is_kept = false;  // a macro looks names up here

  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
};

class Interpreter {
 public:
  struct Span {
    int64_t begin, end;  // code points of the result
  };

  // `now`: seconds since 1970, for strftime_now.
  Interpreter(const std::string& name, int64_t now) : name_(name), now_(now) {}

  // Error kInput with name and line.
  std::string run(const Nodes& body, const Dict& variables);
  // What lay within {% generation %}, with places as Transformers counts them.
  const std::vector<Span>& generations() const { return generations_; }

  Value call(const Value& callee, Arguments& arguments);
  Namespace* make_namespace();
  int64_t now() const { return now_; }
  bool asked_for_date = false;

  // Work of that size was done, or is about to be. Fault where that is too much.
  void spend(std::size_t steps);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeFor;
  class Depth;

  Flow execute(const Nodes& body, Scope& scope, std::string& out);
  Flow execute(const Node& node, Scope& scope, std::string& out);
  Flow execute_if(const Node& node, Scope& scope, std::string& out);
  void execute_for(const Node& node, const Value& list, Scope& scope, std::string& out, int64_t depth);
  void execute_set_block(const Node& node, Scope& scope);
  void execute_with(const Node& node, Scope& scope, std::string& out);
  void execute_call_block(const Node& node, Scope& scope, std::string& out);
  void execute_generation(const Node& node, Scope& scope, std::string& out);
  std::string captured(const Nodes& body, Scope& outer);
  void print(const Value& value, std::string& out);
  void assign(const Node& target, Value value, Scope& scope);

  Value evaluate(const Node& node, Scope& scope);
  Value evaluate_name(const Node& node, Scope& scope);
  Value evaluate_compare(const Node& node, Scope& scope);
  Value evaluate_item(const Node& node, Scope& scope);
  Value evaluate_joined(const Node& node, Scope& scope);
  Value evaluate_applied(const Node& node, const Value& of, Scope& scope);  // a filter or a test
  Value evaluate_filtered(const Node* node, Value of, Scope& scope);        // of a block: filters of nothing
  std::vector<Value> evaluate_all(const Nodes& nodes, std::size_t from, Scope& scope);
  Arguments arguments_of(const Node& node, Scope& scope);
  Value make_macro(const Node& node, Scope& scope, std::string name);
  Value call_macro(const Node& node, Scope& outer, const std::string& name, Arguments& arguments);

  const std::string& name_;
  int64_t now_;
  int line_ = 1;
  std::size_t steps_ = 0;
  int depth_ = 0;
  std::string* root_ = nullptr;  // the result so far
  std::size_t counted_bytes_ = 0;
  int64_t counted_points_ = 0;
  std::vector<Span> generations_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace recollect::jinja
