#include "engine/io/hub_folder.h"

#include <algorithm>
#include <filesystem>

#include "engine/io/file_text.h"

namespace recollect {

namespace fs = std::filesystem;

std::vector<std::string> hub_snapshots(const std::string& folder) {
  const fs::path root(folder);
  std::vector<std::string> names;
  std::error_code error;
  const bool is_cache = fs::is_directory(root / "blobs", error) || fs::is_directory(root / "refs", error);
  if (folder.empty() || !is_cache || fs::exists(root / "config.json", error)) return names;
  for (fs::directory_iterator entry(root / "snapshots", error), end; !error && entry != end;
       entry.increment(error))
    if (std::error_code ignored; fs::is_directory(entry->path(), ignored))
      names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string hub_snapshot(const std::string& folder) {
  constexpr uint64_t kMostText = 4096;
  const std::vector<std::string> names = hub_snapshots(folder);
  if (names.empty()) return folder;
  const fs::path root(folder);
  std::string main;
  if (!read_file_text((root / "refs" / "main").string(), kMostText, main).empty()) main.clear();
  main.erase(std::remove_if(main.begin(), main.end(), [](char c) { return c == '\n' || c == '\r'; }),
             main.end());
  const bool is_there = std::find(names.begin(), names.end(), main) != names.end();
  if (!is_there && names.size() > 1) return folder;
  return (root / "snapshots" / (is_there ? main : names.front())).string();
}

}  // namespace recollect
