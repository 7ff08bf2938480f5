// How deep the interpreter is, and scopes that end with the block that opened them unless a macro still looks into them.
#pragma once

#include "engine/data/jinja/interpreter.h"

namespace recollect::jinja {

class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
    constexpr int kMostDepth = 1200;
    if (++interpreter_.depth_ > kMostDepth) {
      --interpreter_.depth_;
      throw TemplateFault("macros that call one another without an end");
    }
  }
  ~Depth() { --interpreter_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Interpreter& interpreter_;
};

class Interpreter::ScopeFor {
 public:
  ScopeFor(Interpreter& interpreter, Scope* outer) : interpreter_(interpreter) {
    interpreter_.scopes_.push_back(std::make_unique<Scope>(Scope{.outer = outer}));
    scope_ = interpreter_.scopes_.back().get();
  }
  ~ScopeFor() {
    if (!scope_->is_kept && interpreter_.scopes_.back().get() == scope_) interpreter_.scopes_.pop_back();
  }
  ScopeFor(const ScopeFor&) = delete;
  ScopeFor& operator=(const ScopeFor&) = delete;
  Scope& operator*() { return *scope_; }
  Scope* operator->() { return scope_; }

 private:
  Interpreter& interpreter_;
  Scope* scope_;
};

}  // namespace recollect::jinja
