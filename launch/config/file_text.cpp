#include "launch/config/file_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace recollect {

std::string read_file_text(const std::string& path, std::size_t limit, std::string& text) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  errno = 0;
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) return fmt::format("cannot be read: {}", std::strerror(errno));
  std::string bytes(limit + 1, '\0');
  const std::size_t size = std::fread(bytes.data(), 1, bytes.size(), file.get());
  if (std::ferror(file.get())) return fmt::format("cannot be read: {}", std::strerror(errno));
  if (size > limit) return fmt::format("larger than {} bytes", limit);
  bytes.resize(size);
  text = std::move(bytes);
  return "";
}

}  // namespace recollect
