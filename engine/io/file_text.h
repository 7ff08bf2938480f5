// Reads one small text file completely.
#pragma once

#include <cstddef>
#include <string>

namespace recollect {

// Sets `text` and returns "", or returns the reason why the file cannot be read. Files of more than `limit`
// bytes are refused.
std::string read_file_text(const std::string& path, std::size_t limit, std::string& text);

}  // namespace recollect
