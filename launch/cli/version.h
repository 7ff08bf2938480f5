// What this program is made of.
#pragma once

#include <string>
#include <string_view>

namespace recollect {

// Of the sources that the program was built of, as git names it; "unknown" where git does not know them. In a source
// that the build makes (commit.cmake): only main knows it, so that little is built again after a commit.
extern const std::string_view kCommit;

// Five lines: version and commit, compiler, backends, instructions, communicators. Loads no library of NVIDIA's.
std::string version_text(std::string_view commit);

}  // namespace recollect
