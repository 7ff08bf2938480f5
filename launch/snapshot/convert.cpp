#include "launch/snapshot/convert.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/safetensors_header.h"
#include "engine/io/standard_output.h"
#include "engine/io/strict_json.h"
#include "launch/snapshot/destination.h"
#include "launch/snapshot/find_snapshots.h"
#include "launch/snapshot/new_folder.h"
#include "launch/snapshot/to_hugging_face.h"
#include "launch/train/save_model.h"
#include "launch/train/snapshot_lock.h"
#include "parallel/optimizers/eight_bit.h"
#include "parallel/snapshot/snapshot_reader.h"
#include "parallel/snapshot/snapshot_rewriter.h"

namespace recollect {

namespace {

// The newest snapshot if `path` has several.
std::string source_of(const std::string& path) { return require_snapshots(path).back(); }

SavedRun known_run(const SnapshotReader& snapshot) {
  SavedRun run = saved_run(snapshot.manifest(), snapshot.folder());
  if (run.model_files_are_gone)
    warn(
        "what the run's configuration names for its model is not here: tokens and classes have no names in "
        "what is "
        "written of it");
  return run;
}

// Throws if the new layout would cut a block of an 8-bit state.
void check_blocks(const Parameter& p, const std::string& state, const RankLayout& ranks) {
  const auto size = static_cast<int>(ranks.tensor);
  if (state.ends_with(sizes_suffix(p, size))) return;
  throw Error(
      ExitCode::kConfiguration,
      fmt::format("{} is of blocks of 256 columns, which {} tensor ranks cut elsewhere: a rank has {} "
                  "columns of {}",
                  escaped_name(state), size, p.local_columns(size), p.columns),
      "8-bit states go to a tensor_parallel_size that leaves each rank a multiple of 256 columns, as the one "
      "that wrote them does");
}

// The state layout for the optimizer states in the source. Throws if its tensors differ from those of the
// source.
StateLayout layout_of_source(const SnapshotReader& snapshot, const Model& model, const RankLayout& ranks) {
  const std::vector<SnapshotTensor>& there = snapshot.manifest().tensors;
  StateLayout layout(static_cast<int>(ranks.tensor), ranks.world());
  for (const Parameter& p : model.parameters) {
    const std::string name = p.file_tensors().front().name;
    std::vector<StateLayout::Kept> kept;
    for (const SnapshotTensor& tensor : there)
      if (tensor.whole.name == name || tensor.whole.name.starts_with(name + "/")) {
        kept.push_back({tensor.whole.name.substr(std::min(name.size() + 1, tensor.whole.name.size())),
                        tensor.whole.dtype, kind_of_state(p, tensor.whole)});
        if (kept.back().of == StateOf::kBlocks) check_blocks(p, tensor.whole.name, ranks);
      }
    layout.add(p, kept);
  }
  std::string wrong;
  for (const StateTensor& wanted : layout.tensors()) {
    const std::size_t index = snapshot.index_of(wanted.name);
    if (index == there.size() || there[index].whole.shape() != wanted.shape() ||
        there[index].whole.dtype != wanted.dtype)
      wrong += fmt::format("\n  {} {}", escaped_name(wanted.name), shape_to_string(wanted.shape()));
  }
  if (wrong.empty() && layout.tensors().size() == there.size()) return layout;
  throw Error(ExitCode::kInput,
              fmt::format("{} has {} tensors, and the model of its configuration {}{}", snapshot.folder(),
                          there.size(), layout.tensors().size(),
                          wrong.empty() ? "" : ", among them those that it has not:" + wrong),
              "the snapshot is damaged, or another version of this program saved it");
}

}  // namespace

std::string convert_to_snapshot(const Conversion& conversion, std::optional<int64_t> tensor,
                                std::optional<int64_t> data) {
  SnapshotReader snapshot(source_of(conversion.source));
  const Manifest& from = snapshot.manifest();
  const RankLayout there = layout_of(from), ranks{tensor.value_or(there.tensor), data.value_or(there.data)};
  const SnapshotFolder folder = snapshot_place(conversion, from.progress.step);
  const Descriptor lock = lock_snapshots(folder.path());
  const Config config = saved_run(from, snapshot.folder()).config;
  const ModelGraph built = [&] {
    try {
      return model_of_layout(config, ranks);
    } catch (const Error& error) {
      if (tensor || data || error.code() != ExitCode::kConfiguration) throw;
      throw Error(
          ExitCode::kInput,
          fmt::format("{} is of a layout that its model cannot have: {}", snapshot.folder(), error.what()),
          "the snapshot is damaged");
    }
  }();
  const StateLayout layout = layout_of_source(snapshot, built.model, ranks);
  std::vector<std::size_t> sources;
  for (const StateTensor& of : layout.tensors()) sources.push_back(snapshot.index_of(of.name));
  write_snapshot(folder,
                 {.progress = from.progress,
                  .ranks = axes_of(config, ranks),
                  .versions = from.versions,
                  .configuration = from.configuration,
                  .inputs = from.inputs,
                  .files = {},
                  .tensors = {}},
                 layout, [&](std::size_t index, const Rectangle& place, std::byte* to) {
                   snapshot.read(sources[index], place, to);
                 });
  return written_line(folder, from.progress.step, ranks);
}

std::string convert_to_hugging_face(const Conversion& conversion, std::optional<DType> dtype) {
  SnapshotReader snapshot(source_of(conversion.source));
  const SavedRun run = known_run(snapshot);
  NewFolder folder(conversion.destination, conversion.overwrite, hugging_face_files());
  write_hugging_face(snapshot, run, dtype, folder.path());
  folder.commit();
  return fmt::format("wrote {0}{1} and {0}{2}: step {3}\n", printable(conversion.destination),
                     weights_in(conversion.destination, run.config), saved_description_file(run.config),
                     snapshot.manifest().progress.step);
}

}  // namespace recollect
