// A file that the user names for a command to write is never one that the command reads, never another one
// that it writes, and replaces what exists only where that is of the kind that is written there: a slip on
// the command line costs no model, no text and no configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recollect {

// Whether both names lead to one file, which need not exist yet.
bool same_file(const std::string& a, const std::string& b);

struct OutputFile {
  const char* option;     // as the user writes it: "--html"
  std::string path;       // "": not asked for
  const char* kind;       // "a page of recollect"
  std::string_view mark;  // stands near the beginning of every file of that kind
};

// Errors: kConfiguration where two of them are one file, and where one exists and is of another kind. An
// empty file is of every kind.
void check_output_files(const std::vector<OutputFile>& files);

// Error kConfiguration where `path`, named by `option`, is one of the files that are read.
void check_not_read(const char* option, const std::string& path, const std::vector<std::string>& read);

}  // namespace recollect
