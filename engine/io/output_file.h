// Checks of output files that the user names on the command line. Such a file must not be one that the
// command reads or another one that it writes, and it replaces an existing file only if that is of the same
// kind. So a typing error destroys no model, text or configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recollect {

// Returns true if both names lead to one file, which need not exist yet.
bool same_file(const std::string& a, const std::string& b);

struct OutputFile {
  const char* option;     // as the user writes it: "--html"
  std::string path;       // "": not requested
  const char* kind;       // "a page of recollect"
  std::string_view mark;  // text near the beginning of every file of that kind
};

// Throws kConfiguration if two of them are one file, or if one exists and is of another kind. An empty file
// matches every kind.
void check_output_files(const std::vector<OutputFile>& files);

// Throws Error kConfiguration if `path`, named by `option`, is one of the files that are read.
void check_not_read(const char* option, const std::string& path, const std::vector<std::string>& read);

}  // namespace recollect
