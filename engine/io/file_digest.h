// What a file holds in one word, to find out whether other machines read the same one.
#pragma once

#include <cstdint>
#include <string>

namespace recollect {

// "1048576 bytes, 0123456789abcdef": the whole content of a file of up to `most` bytes; of a larger one its
// first and last bytes and blocks of 64 KiB spread evenly between them, `most` bytes in all. Error kInput
// where it cannot be read.
std::string file_digest(const std::string& path, uint64_t most);

}  // namespace recollect
