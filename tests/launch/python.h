// A Python that has what a test wants to compare with, or the reason to skip.
#pragma once

#include <cstdlib>
#include <string>

namespace recollect::test {

// The first interpreter that imports these modules ("torch, transformers"), or "" where none does.
inline std::string python_with(const std::string& modules) {
  for (const std::string python :
       {"python3", "/usr/bin/python3", RECOLLECT_SOURCE_DIR "/build/python/bin/python"})
    if (std::system((python + " -c 'import " + modules + "' >/dev/null 2>&1").c_str()) == 0) return python;
  return "";
}

}  // namespace recollect::test
