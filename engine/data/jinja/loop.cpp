#include "engine/data/jinja/loop.h"

#include <algorithm>

namespace recollect::jinja {

bool Loop::peek() {
  while (!after_ && at_ < items_.size()) {
    const Value& item = items_[at_++];
    if (!takes_ || takes_(item)) after_ = item;
  }
  return after_.has_value();
}

bool Loop::next() {
  if (!peek()) return false;
  before_ = std::exchange(current_, std::exchange(after_, std::nullopt));
  ++index0_;
  return true;
}

int64_t Loop::length() {
  if (length_) return *length_;
  if (takes_) {
    std::vector<Value> rest;
    for (std::size_t i = at_; i < items_.size(); ++i)
      if (takes_(items_[i])) rest.push_back(items_[i]);
    items_ = std::move(rest);
    at_ = 0;
    takes_ = nullptr;
  }
  length_ = index0_ + 1 + (after_ ? 1 : 0) + static_cast<int64_t>(items_.size() - at_);
  return *length_;
}

std::optional<Value> Loop::attribute(std::string_view name, Value self) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!peek());
  if (name == "length") return Value(length());
  if (name == "revindex") return Value(length() - index0_);
  if (name == "revindex0") return Value(length() - index0_ - 1);
  if (name == "depth") return Value(depth_);
  if (name == "depth0") return Value(depth_ - 1);
  if (name == "previtem") return index0_ == 0 ? Value::undefined("there is no previous item") : *before_;
  if (name == "nextitem") return peek() ? *after_ : Value::undefined("there is no next item");
  if (name == "cycle")
    return Value(std::make_shared<Callable>(Callable{"cycle", [self](Interpreter&, Arguments& arguments) {
                                                       if (arguments.values.empty())
                                                         fail_type("no items for cycling given");
                                                       const auto at =
                                                           static_cast<std::size_t>(self.loop()->index0());
                                                       return arguments.values[at % arguments.values.size()];
                                                     }}));
  if (name == "changed")
    return Value(std::make_shared<Callable>(
        Callable{"changed", [self](Interpreter&, Arguments& arguments) {
                   auto& before = self.loop()->changed_;
                   const std::vector<Value>& now = arguments.values;
                   const bool same =
                       before && std::equal(before->begin(), before->end(), now.begin(), now.end(), equal);
                   before = now;
                   return Value(!same);
                 }}));
  return std::nullopt;
}

}  // namespace recollect::jinja
