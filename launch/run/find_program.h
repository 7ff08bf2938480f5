// What every rank runs, found before the first of them is started.
#pragma once

#include <string>
#include <vector>

#include "launch/config/words.h"

namespace recollect::launcher {

struct Program {
  std::string path;
  Words words;        // argv
  bool ours = false;  // this very binary
};

// `words` begin with one of our own `commands` (then it is this very binary), with a Python script (then, unless
// `with_python` is false, it is python3 -u, or what PYTHON_EXEC names), or with a program as a shell would
// find it. Error kConfiguration where there is none.
Program find_program(const Words& words, const std::vector<std::string>& commands, bool with_python);

}  // namespace recollect::launcher
