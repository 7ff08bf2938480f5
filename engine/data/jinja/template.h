// A chat template: Jinja as Transformers sets it up (immutable sandbox, trim_blocks, lstrip_blocks, loop controls, its own
// tojson, raise_exception, strftime_now, namespace, {% generation %}). No packaged C++ library renders such templates as
// Jinja does: inja and Jinja2Cpp lack macros, namespaces or Python's methods, and minja and llama.cpp's engine are parts of
// other programs. So this is one of our own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/jinja/syntax.h"

namespace recollect::jinja {

struct Rendered {
  struct Span {
    int64_t begin, end;  // code points of the text
  };
  std::string text;
  std::vector<Span> generations;  // what lay within {% generation %}, in order
  bool has_date = false;          // the text depends on the day
};

class Template {
 public:
  // Error kInput with `name` and the line of what is damaged or not supported.
  Template(std::string_view source, std::string name);

  // May be called by several threads at a time. Error kInput with name and line: what raise_exception says, too.
  Rendered render(const Dict& variables, int64_t now) const;

  const std::string& name() const { return name_; }
  bool has_generation() const { return has_generation_; }

 private:
  std::string name_;
  Nodes body_;
  bool has_generation_ = false;
};

}  // namespace recollect::jinja
