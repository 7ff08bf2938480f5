#include "parallel/snapshot/snapshot_rewriter.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/arena.h"
#include "parallel/snapshot/shard_file.h"

namespace recollect {

namespace {

// Elements of a part from number `begin` on, which may begin and end inside a row.
void read_elements(const StatePart& part, int64_t begin, int64_t count, std::size_t width,
                   const ReadTensor& read, std::byte* to) {
  const auto& [first_row, rows, first_column, columns] = part.place;
  while (count > 0) {
    const int64_t row = begin / columns, column = begin % columns;
    const bool whole = column == 0 && count >= columns;
    const Rectangle place =
        whole ? Rectangle{first_row + row, count / columns, first_column, columns}
              : Rectangle{first_row + row, 1, first_column + column, std::min(count, columns - column)};
    read(part.tensor, place, to);
    begin += place.elements();
    count -= place.elements();
    to += place.elements() * static_cast<int64_t>(width);
  }
}

void write_files(const std::string& folder, Manifest& manifest, const StateLayout& layout,
                 const ReadTensor& read) {
  std::vector<std::byte> piece(kSummedBytes);
  const Arena stage(kStagedBytes);
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const std::vector<StatePart> parts = layout.saved_by(rank);
    const ReadState read_part = [&](std::size_t i, uint64_t first, std::size_t bytes) -> const std::byte* {
      const std::size_t width = size_of(layout.tensors()[parts[i].tensor].dtype);
      read_elements(parts[i], static_cast<int64_t>(first / width), static_cast<int64_t>(bytes / width), width,
                    read, piece.data());
      return piece.data();
    };
    add_part(write_shard_file(folder, fmt::format("rank-{:05}.safetensors", rank),
                              form_of_shard(layout.tensors(), parts), read_part, stage.at(0)),
             manifest);
  }
}

}  // namespace

void write_snapshot(const SnapshotFolder& folder, Manifest manifest, const StateLayout& layout,
                    const ReadTensor& read) {
  const int64_t step = manifest.progress.step;
  for (const StateTensor& tensor : layout.tensors()) manifest.tensors.push_back({.whole = tensor});
  folder.begin(step);
  std::error_code ignored;
  try {
    write_files(folder.being_saved(step), manifest, layout, read);
  } catch (...) {
    std::filesystem::remove_all(folder.being_saved(step), ignored);
    throw;
  }
  folder.commit(step, to_json(manifest));
  std::filesystem::remove_all(folder.being_saved(step), ignored);  // what it has replaced
}

}  // namespace recollect
