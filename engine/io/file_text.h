// Reading one small text file whole.
#pragma once

#include <cstddef>
#include <string>

namespace recollect {

// Sets `text` and returns "", or returns why the file cannot be read. A file of more than `limit` bytes is
// refused without being read.
std::string read_file_text(const std::string& path, std::size_t limit, std::string& text);

}  // namespace recollect
