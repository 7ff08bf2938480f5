// A short digest of a file's content, to check whether other machines read the same file.
#pragma once

#include <cstdint>
#include <string>

namespace recollect {

// Returns for example "1048576 bytes, 0123456789abcdef". For a file of up to `most` bytes it covers the whole
// content; for a larger one, `most` bytes in all: the first bytes, the last bytes, and blocks of 64 KiB
// evenly spread between them. Throws Error kInput if the file cannot be read.
std::string file_digest(const std::string& path, uint64_t most);

}  // namespace recollect
