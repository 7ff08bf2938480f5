// A file that a disk has damaged.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace recollect::test {

// Of the byte at that place.
inline void flip_bit(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char before = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(before ^ 1));
}

}  // namespace recollect::test
