#include "parallel/snapshot/state_layout.h"

#include <algorithm>
#include <numeric>

namespace recollect {

Rectangle common_part(const Rectangle& a, const Rectangle& b) {
  const auto meet = [](int64_t a_first, int64_t a_count, int64_t b_first, int64_t b_count) {
    const int64_t first = std::max(a_first, b_first), end = std::min(a_first + a_count, b_first + b_count);
    return std::pair(first, std::max<int64_t>(0, end - first));
  };
  const auto [row, rows] = meet(a.row, a.rows, b.row, b.rows);
  const auto [column, columns] = meet(a.column, a.columns, b.column, b.columns);
  return {row, rows, column, columns};
}

StateLayout::StateLayout(const Model& model, const Graph& graph, const Mesh& mesh) : mesh_(mesh) {
  for (const Parameter& p : model.parameters) {
    add(p, p.name, graph.value(p.master));
    for (const Parameter::State& state : p.states)
      add(p, p.name + "/" + state.name, graph.value(state.value));
  }
  savers_ = savers();
}

void StateLayout::add(const Parameter& p, std::string name, const Value& value) {
  const int size = mesh_.tensor_size();
  require(value.shape.elements() == p.local_rows(size) * p.local_columns(size),
          "the state " + name + " is not shaped like its parameter");
  tensors_.push_back({std::move(name), value.dtype, p.rows, p.columns, p.vector});
  parameters_.push_back(&p);
}

int StateLayout::world_rank() const { return mesh_.world().rank(); }

// Ranks of one shard hold the same parts of the parameter.
int StateLayout::shard_of(const Parameter& p, int world_rank) const {
  const int tensor_rank = world_rank % mesh_.tensor_size();
  switch (p.split) {
    case Parameter::Split::kNone:
      return 0;
    case Parameter::Split::kRows:
      return tensor_rank / p.repeats;
    case Parameter::Split::kColumns:
      return tensor_rank;
  }
  throw Error(ExitCode::kInternal, "a parameter that is split in another way");
}

std::vector<StateLayout::Part> StateLayout::held_by(int world_rank) const {
  const int size = mesh_.tensor_size(), rank = world_rank % size;
  std::vector<Part> parts;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const Parameter& p = *parameters_[t];
    const int64_t rows = p.local_rows(size), columns = p.local_columns(size);
    const uint64_t width = static_cast<uint64_t>(columns) * size_of(tensors_[t].dtype);
    const std::size_t first = parts.size();
    for (int64_t r = 0, together = 0; r < rows; r += together) {
      const Parameter::RowPlace place = p.place_of_row(r, rank, size);
      together = std::min(place.together, rows - r);
      const int64_t count = std::clamp<int64_t>(p.rows - place.row, 0, together);
      if (count == 0) continue;
      const auto offset = static_cast<uint64_t>(r) * width, bytes = static_cast<uint64_t>(count) * width;
      if (parts.size() > first) {
        Part& before = parts.back();
        if (before.place.row + before.place.rows == place.row && before.offset + before.bytes == offset) {
          before.place.rows += count;
          before.bytes += bytes;
          continue;
        }
      }
      parts.push_back({t, {place.row, count, p.whole_column(0, rank, size), columns}, offset, bytes});
    }
  }
  return parts;
}

// The largest tensors first, each shard to whom it makes the least loaded.
std::vector<std::vector<int>> StateLayout::savers() const {
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors_[a].bytes() > tensors_[b].bytes(); });
  const int world = mesh_.world().size();
  std::vector<uint64_t> load(static_cast<std::size_t>(world), 0);
  std::vector<std::vector<int>> savers(tensors_.size());
  for (const std::size_t t : order) {
    const Parameter& p = *parameters_[t];
    for (int rank = 0; rank < world; ++rank) {
      const auto shard = static_cast<std::size_t>(shard_of(p, rank));
      if (shard >= savers[t].size()) savers[t].resize(shard + 1, -1);
      int& saver = savers[t][shard];
      if (saver < 0 || load[static_cast<std::size_t>(rank)] < load[static_cast<std::size_t>(saver)])
        saver = rank;
    }
    for (const int saver : savers[t])
      load[static_cast<std::size_t>(saver)] += tensors_[t].bytes() / savers[t].size();
  }
  return savers;
}

std::vector<StateLayout::Part> StateLayout::saved_by(int world_rank) const {
  std::vector<Part> parts = held_by(world_rank);
  std::erase_if(parts, [&](const Part& part) {
    const auto shard = static_cast<std::size_t>(shard_of(*parameters_[part.tensor], world_rank));
    return savers_[part.tensor][shard] != world_rank;
  });
  return parts;
}

}  // namespace recollect
