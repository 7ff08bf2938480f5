// A regular file, read by position. It may be shortened or grow while it is open: a read beyond its new end
// throws an Error that says so, where access through a mapping would kill the process (SIGBUS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace recollect {

class InputFile {
 public:
  // Throws Error kInput if the file is missing, is not a regular file, or is a pointer of Git LFS; kStorage
  // if the system refuses to open it.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return descriptor_; }

  // Fills `bytes` from `offset` on, which must lie inside size(). Any thread may call it; it allocates
  // nothing. Throws Error kInput with the file and the offset if the bytes no longer exist, and kStorage if
  // the disk cannot read them.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;
  // Asks the system to read these bytes ahead; advice only.
  void will_read(uint64_t offset, uint64_t bytes) const;
  // Returns the first `most` bytes, or all if there are fewer.
  std::string text(uint64_t most = std::numeric_limits<uint64_t>::max()) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace recollect
