#include "engine/io/output_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr std::size_t kBeginning = 4096;  // bytes in which the mark is searched

[[noreturn]] void refuse_output(const OutputFile& file, const std::string& why) {
  throw Error(ExitCode::kConfiguration, fmt::format("{} {}: {}", file.option, file.path, why),
              "name another file");
}

// Devices, folders and pipes are refused later, when they are opened.
bool may_be_replaced(const OutputFile& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file.path, error)) return true;
  if (std::filesystem::file_size(file.path, error) == 0) return true;
  std::string beginning(kBeginning, '\0');
  std::ifstream stream(file.path, std::ios::binary);
  stream.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(stream.gcount()));
  return beginning.find(file.mark) != std::string::npos;
}

}  // namespace

bool same_file(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  const bool a_exists = ::stat(a.c_str(), &one) == 0, b_exists = ::stat(b.c_str(), &other) == 0;
  if (a_exists && b_exists) return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  if (a_exists || b_exists) return false;
  std::error_code error;
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return whole(a) == whole(b);
}

void check_output_files(const std::vector<OutputFile>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].path.empty()) continue;
    for (std::size_t j = 0; j < i; ++j)
      if (!files[j].path.empty() && same_file(files[i].path, files[j].path))
        refuse_output(files[i], fmt::format("{} names the same file", files[j].option));
    if (!may_be_replaced(files[i]))
      refuse_output(files[i], fmt::format("the file exists and is not {}", files[i].kind));
  }
}

void check_not_read(const char* option, const std::string& path, const std::vector<std::string>& read) {
  for (const std::string& input : read)
    if (same_file(path, input))
      throw Error(ExitCode::kConfiguration, fmt::format("{} {} is also read", option, path),
                  "name another file");
}

}  // namespace recollect
