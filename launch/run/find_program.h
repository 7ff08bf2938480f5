// Finds the program that every rank runs, before the first rank is started.
#pragma once

#include <string>
#include <vector>

#include "launch/config/words.h"

namespace recollect::launcher {

struct Program {
  std::string path;
  Words words;        // argv
  bool ours = false;  // this binary itself
};

// `words` begin with one of Recollect's `commands`, which this binary runs; or with a Python script, which
// `python3 -u` runs (or the program in PYTHON_EXEC) unless `with_python` is false; or with a program, which
// is searched as a shell does. Throws kConfiguration if there is no such program.
Program find_program(const Words& words, const std::vector<std::string>& commands, bool with_python);

}  // namespace recollect::launcher
