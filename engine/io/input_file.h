// A regular file that is read by position and may be shortened or grow while it is open: who runs into its
// new end gets an Error that says so, where a mapping would be killed (SIGBUS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace recollect {

class InputFile {
 public:
  // Error kInput when the file is missing, is not a regular file, or is one of Git LFS's pointers; kStorage where the system refuses to open it.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return descriptor_; }

  // Fills `bytes` from `offset` on, which lies inside size(). From any thread; allocates nothing. Error
  // kInput with the file and the offset that it has no more; kStorage where the disk refuses to read it.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;
  // Asks the system to have these bytes in memory when they are read; advice only.
  void will_read(uint64_t offset, uint64_t bytes) const;
  // The first `most` bytes, or all where there are fewer.
  std::string text(uint64_t most = std::numeric_limits<uint64_t>::max()) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace recollect
