#include "parallel/snapshot/snapshot_reader.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/strict_json.h"
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

namespace {

constexpr uint64_t kMostManifest = uint64_t{1} << 30;
constexpr int64_t kPiece = int64_t{1} << 20;  // bytes on their way to the state
constexpr std::size_t kMostOpen = 64;         // files, each with a block in memory

std::string text_of(const StateTensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype), shape_to_string(tensor.shape()));
}

// It may lead out of the snapshot.
void refuse_link(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored))
    throw Error(ExitCode::kInput, path + " is a symbolic link, which no snapshot and none of its files is",
                "name or copy what it leads to, if you trust it");
}

std::string read_manifest_text(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kManifestName);
  refuse_link(folder);
  refuse_link(path);
  const InputFile file(path);
  if (file.size() > kMostManifest)
    throw Error(ExitCode::kInput, fmt::format("{} has {} bytes: no manifest is so large", path, file.size()));
  return file.text();
}

}  // namespace

SnapshotReader::SnapshotReader(const std::string& folder)
    : folder_(folder),
      manifest_(parse_manifest(read_manifest_text(folder), folder + "/" + std::string(kManifestName))) {
  const int64_t named = step_of_folder(std::filesystem::path(folder).filename().string());
  if (named >= 0 && named != manifest_.progress.step)
    throw Error(ExitCode::kInput,
                fmt::format("{} is called after another step than its manifest's, {}", folder,
                            manifest_.progress.step),
                "somebody has renamed or copied it; the name is step-NNNNNNNN");
  for (std::size_t t = 0; t < manifest_.tensors.size(); ++t) by_name_[manifest_.tensors[t].whole.name] = t;
}

ShardFile& SnapshotReader::file(std::size_t index) {
  if (const auto open = open_.find(index); open != open_.end()) return *open->second;
  if (open_.size() == kMostOpen) open_.clear();
  refuse_link(folder_ + "/" + manifest_.files[index].name);
  return *(open_[index] = std::make_unique<ShardFile>(folder_, manifest_.files[index]));
}

std::size_t SnapshotReader::index_of(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? manifest_.tensors.size() : found->second;
}

std::size_t SnapshotReader::find(const StateTensor& wanted, std::string& problems) const {
  const auto found = by_name_.find(wanted.name);
  if (found == by_name_.end()) {
    problems += fmt::format("\n  missing: {}", wanted.name);
    return 0;
  }
  const StateTensor& there = manifest_.tensors[found->second].whole;
  if (there.dtype != wanted.dtype || there.shape() != wanted.shape())
    problems += fmt::format("\n  {}: {} there, {} here", wanted.name, text_of(there), text_of(wanted));
  return found->second;
}

void SnapshotReader::check_matches(const TrainingState& state) const {
  std::string problems;
  for (const StateTensor& wanted : state.tensors()) find(wanted, problems);
  std::map<std::string_view, bool> expected;
  for (const StateTensor& wanted : state.tensors()) expected[wanted.name] = true;
  for (const SnapshotTensor& tensor : manifest_.tensors)
    if (!expected.contains(tensor.whole.name))
      problems += fmt::format("\n  unknown: {}", escaped_name(tensor.whole.name));
  if (problems.empty()) return;
  if (problems.find("_absmax_of_") != std::string::npos)
    problems +=
        "\nblocks of 256 states end where tensor ranks' columns do: these go on at the "
        "tensor_parallel_size that wrote them alone";
  throw Error(
      ExitCode::kInput, fmt::format("the snapshot {} is of another model or optimizer:{}", folder_, problems),
      "resume with the model, the optimizer and the precision that wrote it, or start anew: resume=never");
}

void SnapshotReader::read(std::size_t tensor, const Rectangle& place, std::byte* to) {
  const SnapshotTensor& from = manifest_.tensors[tensor];
  const auto width = static_cast<int64_t>(size_of(from.whole.dtype));
  for (const SnapshotShard& shard : from.shards) {
    const Rectangle common = common_part(shard.place, place);
    if (common.elements() == 0) continue;
    const bool together = common.columns == shard.place.columns && common.columns == place.columns;
    const int64_t lines = together ? 1 : common.rows,
                  line = (together ? common.rows : 1) * common.columns * width;
    for (int64_t i = 0; i < lines; ++i) {
      const int64_t row = common.row + i;
      const int64_t source =
                        (row - shard.place.row) * shard.place.columns + common.column - shard.place.column,
                    target = (row - place.row) * place.columns + common.column - place.column;
      file(shard.file)
          .read(shard, from.whole.dtype, static_cast<uint64_t>(source * width),
                {to + target * width, static_cast<std::size_t>(line)});
    }
  }
}

void SnapshotReader::load(const TrainingState& state) {
  check_matches(state);
  std::vector<std::byte> piece;
  for (const TrainingState::Part& part : state.held_by(state.world_rank())) {
    std::string none;
    const StateTensor& wanted = state.tensors()[part.tensor];
    const std::size_t tensor = find(wanted, none);
    const int64_t line = part.place.columns * static_cast<int64_t>(size_of(wanted.dtype));
    const int64_t together = std::max<int64_t>(1, kPiece / line);
    for (int64_t done = 0; done < part.place.rows; done += together) {
      const Rectangle rows{part.place.row + done, std::min(together, part.place.rows - done),
                           part.place.column, part.place.columns};
      piece.resize(static_cast<std::size_t>(rows.rows * line));
      read(tensor, rows, piece.data());
      state.write(part, static_cast<uint64_t>(done * line), piece.size(), piece.data());
    }
  }
  state.refresh_parameters();
}

void SnapshotReader::verify() {
  for (std::size_t i = 0; i < manifest_.files.size(); ++i) file(i).verify();
  check_tensors();
}

void SnapshotReader::check_tensors() {
  for (const SnapshotTensor& tensor : manifest_.tensors)
    for (const SnapshotShard& shard : tensor.shards) file(shard.file).read(shard, tensor.whole.dtype, 0, {});
}

std::vector<std::string> SnapshotReader::unknown_files() const {
  std::vector<std::string> unknown;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto is_it = [&](const SnapshotFile& file) { return file.name == name; };
    if (name != kManifestName && std::none_of(manifest_.files.begin(), manifest_.files.end(), is_it))
      unknown.push_back(name);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

InputFile SnapshotReader::open(std::size_t index) const {
  const std::string path = folder_ + "/" + manifest_.files[index].name;
  refuse_link(path);
  return InputFile(path);
}

}  // namespace recollect
