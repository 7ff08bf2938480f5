#include "engine/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/file_kind.h"

namespace recollect {

namespace {

// Returns kInput if the file does not exist or is not a file. All other reasons say nothing about the file
// itself: the system cannot read it now, or not for this user.
ExitCode code_of(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case ENODEV:
    case EINVAL:
      return ExitCode::kInput;
    default:
      return ExitCode::kStorage;
  }
}

int open_to_read(const std::string& path) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// A file that cannot be read counts as no pointer: the next read reports the reason.
bool is_pointer(int descriptor, uint64_t size) {
  constexpr uint64_t kMost = 1024;  // bytes; the limit of Git LFS
  std::array<char, kFileKindBytes> begin{};
  if (size > kMost) return false;
  const ssize_t read = ::pread(descriptor, begin.data(), begin.size(), 0);
  return read > 0 && is_lfs_pointer({begin.data(), static_cast<std::size_t>(read)});
}

}  // namespace

// Opens without blocking, so that a named pipe is refused below instead of waited for here.
InputFile::InputFile(const std::string& path) : path_(path), descriptor_(open_to_read(path)) {
  struct stat status {};
  std::string wrong;
  ExitCode code = ExitCode::kInput;
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    code = code_of(errno);
    wrong =
        fmt::format("cannot {} {}: {}", descriptor_ < 0 ? "open" : "examine", path, system_message(errno));
  } else if (!S_ISREG(status.st_mode))
    wrong = fmt::format("{} is {}, not a file", path,
                        S_ISDIR(status.st_mode) ? "a folder" : "a device or a pipe");
  std::string hint;
  if (wrong.empty()) {
    size_ = static_cast<uint64_t>(status.st_size);
    if (!is_pointer(descriptor_, size_)) return;
    wrong = fmt::format("{} is a pointer of Git LFS: the file itself was not downloaded", path);
    hint = kLfsHint;
  }
  if (descriptor_ >= 0) ::close(descriptor_);
  throw Error(code, wrong, hint);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void InputFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0)
      throw Error(code_of(errno),
                  fmt::format("cannot read {} at byte {}: {}", path_, offset, system_message(errno)));
    if (done == 0)
      throw Error(
          ExitCode::kInput,
          fmt::format("{}: byte {} is gone: it had {} bytes when it was opened and was shortened since",
                      path_, offset, size_),
          "put a new file in its place by a rename; what is open then stays whole");
    offset += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void InputFile::will_read(uint64_t offset, uint64_t bytes) const {
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

std::string InputFile::text(uint64_t most) const {
  std::string text(std::min(most, size_), '\0');
  read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace recollect
