// A template's source cut into tokens, with blanks around tags treated as Transformers has Jinja do it: the line end after a
// tag goes, and so do blanks before a tag that begins a line; {%- and -%} take all blanks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/data/jinja/value.h"

namespace recollect::jinja {

struct TemplateToken {
  enum class Kind {
    kData,
    kPrintBegin,
    kPrintEnd,
    kTagBegin,
    kTagEnd,
    kName,
    kText,
    kNumber,
    kOperator,
    kEnd
  };
  Kind kind;
  int line;
  std::string text;  // data, the name, the operator
  Value value = {};  // of kText and kNumber
};

// What is wrong in a template's source: error kInput with name and line.
[[noreturn]] void fail_in_template(const std::string& name, int line, const std::string& what,
                                   const std::string& hint = {});

std::vector<TemplateToken> tokens_of_template(std::string_view source, const std::string& name);

}  // namespace recollect::jinja
