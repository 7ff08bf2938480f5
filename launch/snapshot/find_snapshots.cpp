#include "launch/snapshot/find_snapshots.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "parallel/snapshot/manifest.h"
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

std::vector<std::string> find_snapshots(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path name = fs::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  if (!fs::is_directory(name, ignored)) return {};
  const bool one = step_of_folder(name.filename().string()) >= 0 ||
                   fs::symlink_status(name / kManifestName, ignored).type() != fs::file_type::not_found;
  if (one) return {name.string()};
  std::vector<std::string> folders;
  const SnapshotFolder all(name.string());
  for (const int64_t step : all.steps()) folders.push_back(all.of_step(step));
  std::reverse(folders.begin(), folders.end());
  return folders;
}

std::vector<std::string> require_snapshots(const std::string& path) {
  std::vector<std::string> found = find_snapshots(path);
  if (found.empty())
    throw Error(ExitCode::kInput, fmt::format("{} is no snapshot, and none is in it", printable(path)),
                "name one, such as output/snapshots/step-00000100, or the folder that snapshot.path names");
  return found;
}

}  // namespace recollect
