// The kinds of the table of ops in a header's comment, which no compiler reads.
#pragma once

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace recollect::test {

// The table begins behind the line "// kind ..." and goes on to the end of the comment. A row that begins
// with kinds has them right behind "// ", with commas between several.
inline std::set<std::string> kinds_in_table(const std::string& header) {
  std::ifstream file(std::string(RECOLLECT_SOURCE_DIR) + "/" + header);
  std::set<std::string> kinds;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("//", 0) != 0) {
      in_table = false;
    } else if (line.rfind("// kind ", 0) == 0) {
      in_table = true;
    } else if (in_table && line.size() > 3 && line[3] != ' ') {
      std::istringstream words(line.substr(3));
      for (std::string kind; words >> kind;) {
        const bool more = kind.back() == ',';
        if (more) kind.pop_back();
        kinds.insert(kind);
        if (!more) break;
      }
    }
  }
  return kinds;
}

}  // namespace recollect::test
