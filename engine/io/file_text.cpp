#include "engine/io/file_text.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "engine/io/file_kind.h"

namespace recollect {

std::string read_file_text(const std::string& path, std::size_t limit, std::string& text) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  errno = 0;
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) return fmt::format("cannot be read: {}", std::strerror(errno));
  struct stat status {};
  if (::fstat(::fileno(file.get()), &status) == 0 && S_ISDIR(status.st_mode))
    return "is a folder, where a file is expected";
  std::string bytes;
  std::array<char, 16 << 10> part{};  // most files are smaller than this, and far below the limit
  while (bytes.size() <= limit) {
    const std::size_t size = std::fread(part.data(), 1, part.size(), file.get());
    if (std::ferror(file.get())) return fmt::format("cannot be read: {}", std::strerror(errno));
    if (size == 0) break;
    bytes.append(part.data(), size);
  }
  if (bytes.size() > limit) return fmt::format("larger than {} bytes", limit);
  if (is_lfs_pointer(bytes))
    return fmt::format("a pointer of Git LFS: the file itself was not downloaded; {}", kLfsHint);
  text = std::move(bytes);
  return "";
}

}  // namespace recollect
