#include "launch/snapshot/destination.h"

#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"

namespace recollect {

SnapshotFolder snapshot_place(const Conversion& conversion, int64_t step) {
  std::filesystem::path name = std::filesystem::path(conversion.destination).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  const int64_t named = step_of_folder(name.filename().string());
  if (named >= 0 && named != step)
    throw Error(ExitCode::kConfiguration,
                fmt::format("{} is a name for step {}, and the snapshot is of step {}",
                            printable(name.string()), named, step),
                "name the folder of a run's snapshots");
  const std::string parent = name.parent_path().string();
  SnapshotFolder folder(named < 0 ? name.string() : parent.empty() ? "." : parent);
  const std::string place = folder.of_step(step);
  std::error_code ignored;
  if (!conversion.overwrite &&
      std::filesystem::symlink_status(place, ignored).type() != std::filesystem::file_type::not_found)
    throw Error(ExitCode::kStorage, fmt::format("{} is there", printable(place)),
                "name another destination, or let it be replaced: --overwrite");
  return folder;
}

std::string written_line(const SnapshotFolder& folder, int64_t step, const RankLayout& layout) {
  return fmt::format("wrote {}: step {}, tensor {} x data {}\n", printable(folder.of_step(step)), step,
                     layout.tensor, layout.data);
}

}  // namespace recollect
