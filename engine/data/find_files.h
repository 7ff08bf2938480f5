// The files that paths given by a user stand for.
#pragma once

#include <string>
#include <vector>

namespace recollect {

// Files as they are (and a Megatron pair by its common prefix); for a folder, those below it with one of the
// extensions
// (".txt"), sorted by path. Errors: kInput for a path that is not there and for a folder without such a file.
std::vector<std::string> find_files(const std::vector<std::string>& paths,
                                    const std::vector<std::string>& extensions);

}  // namespace recollect
