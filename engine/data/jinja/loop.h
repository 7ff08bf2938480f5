// The `loop` of a for: where it stands, and one item ahead. Items that the loop's own `if` leaves out are found out about as
// late as Jinja does.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/data/jinja/value.h"

namespace recollect::jinja {

class Loop {
 public:
  Loop(std::vector<Value> items, std::function<bool(const Value&)> takes, int64_t depth)
      : items_(std::move(items)), takes_(std::move(takes)), depth_(depth) {}

  // Goes on to the next item; false where there is none.
  bool next();
  const Value& item() const { return *current_; }
  int64_t index0() const { return index0_; }
  int64_t length();
  int64_t depth() const { return depth_; }  // from 1 on
  bool has_next() { return peek(); }
  // The for has ended, and nothing of the template is looked at any more.
  void end() { takes_ = nullptr, recurse = nullptr; }
  std::function<std::string(const Value&)> recurse = {};  // of a recursive for
  // Of the loop's own names: index, first, previtem, ...; null where there is none of that name.
  std::optional<Value> attribute(std::string_view name, Value self);

 private:
  bool peek();

  std::vector<Value> items_;
  std::function<bool(const Value&)> takes_;  // may be empty
  int64_t depth_;
  std::size_t at_ = 0;
  int64_t index0_ = -1;
  std::optional<Value> before_, current_, after_;
  std::optional<int64_t> length_;
  std::optional<std::vector<Value>> changed_;
};

}  // namespace recollect::jinja
