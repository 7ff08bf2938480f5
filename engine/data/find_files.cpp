#include "engine/data/find_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/core/error.h"
#include "engine/core/printable.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;

bool is_megatron_prefix(const std::string& path) {
  std::error_code error;
  return !fs::exists(path, error) && fs::exists(path + ".idx", error) && fs::exists(path + ".bin", error);
}

void add_folder(const std::string& folder, const std::vector<std::string>& extensions,
                std::vector<std::string>& files) {
  std::vector<std::string> found;
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      const std::string extension = entry.path().extension().string();
      const bool wanted = std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
      if (wanted && entry.is_regular_file()) found.push_back(entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::kInput,
                fmt::format("cannot search the folder {}: {}", folder, error.code().message()));
  }
  for (const std::string& file : found)
    if (printable(file) != file)
      throw Error(ExitCode::kInput,
                  fmt::format("the name of {} has characters that cannot be shown", printable(file)),
                  "rename it");
  if (found.empty())
    throw Error(ExitCode::kInput, fmt::format("the folder {} holds no file ending in {}", folder,
                                              fmt::join(extensions, " or ")));
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

}  // namespace

std::vector<std::string> find_files(const std::vector<std::string>& paths,
                                    const std::vector<std::string>& extensions) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error))
      add_folder(path, extensions, files);
    else if (fs::exists(path, error) || is_megatron_prefix(path))
      files.push_back(path);
    else
      throw Error(ExitCode::kInput, fmt::format("there is no file or folder {}", path));
  }
  return files;
}

}  // namespace recollect
