#include "parallel/snapshot/training_state.h"

#include <algorithm>
#include <numeric>

namespace recollect {

namespace {

constexpr std::size_t kPieceElements = std::size_t{1} << 16;  // on their way to a parameter

// As the optimizer rounds a master copy. `to` and `from` hold `count` elements.
void round_master(const Tensor& from, const Tensor& to, std::size_t count) {
  const auto convert = [&]<typename In, typename Out>(const In* in, Out* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = Out(static_cast<float>(in[i]));
  };
  const auto into = [&](const auto* in) {
    switch (to.dtype) {
      case DType::kBF16:
        return convert(in, to.as<bf16>());
      case DType::kF16:
        return convert(in, to.as<f16>());
      case DType::kF32:
        return convert(in, to.as<float>());
      default:
        throw Error(ExitCode::kInternal, "a parameter of no floating type");
    }
  };
  from.dtype == DType::kF64 ? into(from.as<double>()) : into(from.as<float>());
}

}  // namespace

Rectangle common_part(const Rectangle& a, const Rectangle& b) {
  const auto meet = [](int64_t a_first, int64_t a_count, int64_t b_first, int64_t b_count) {
    const int64_t first = std::max(a_first, b_first), end = std::min(a_first + a_count, b_first + b_count);
    return std::pair(first, std::max<int64_t>(0, end - first));
  };
  const auto [row, rows] = meet(a.row, a.rows, b.row, b.rows);
  const auto [column, columns] = meet(a.column, a.columns, b.column, b.columns);
  return {row, rows, column, columns};
}

TrainingState::TrainingState(const Model& model, const Graph& graph, const ProgramMemory& memory,
                             const Mesh& mesh)
    : model_(model), memory_(memory), mesh_(mesh) {
  for (const Parameter& p : model.parameters) {
    values_.push_back(memory.tensor(graph.value(p.value).name));
    masters_.push_back(tensors_.size());
    add(p, p.name, memory.tensor(graph.value(p.master).name));
    for (const Parameter::State& state : p.states)
      add(p, p.name + "/" + state.name, memory.tensor(graph.value(state.value).name));
  }
  savers_ = savers();
}

void TrainingState::add(const Parameter& p, std::string name, const Tensor& memory) {
  const int size = mesh_.tensor_size();
  require(memory.elements() == p.local_rows(size) * p.local_columns(size),
          "the state " + name + " is not shaped like its parameter");
  tensors_.push_back({std::move(name), memory.dtype, p.rows, p.columns, p.vector});
  homes_.push_back({&p, memory});
}

int TrainingState::world_rank() const { return mesh_.world().rank(); }

// Ranks of one shard hold the same parts of the parameter.
int TrainingState::shard_of(const Parameter& p, int world_rank) const {
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

std::vector<TrainingState::Part> TrainingState::held_by(int world_rank) const {
  const int size = mesh_.tensor_size(), rank = world_rank % size;
  std::vector<Part> parts;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const Parameter& p = *homes_[t].parameter;
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
std::vector<std::vector<int>> TrainingState::savers() const {
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors_[a].bytes() > tensors_[b].bytes(); });
  const int world = mesh_.world().size();
  std::vector<uint64_t> load(static_cast<std::size_t>(world), 0);
  std::vector<std::vector<int>> savers(tensors_.size());
  for (const std::size_t t : order) {
    const Parameter& p = *homes_[t].parameter;
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

std::vector<TrainingState::Part> TrainingState::saved_by(int world_rank) const {
  std::vector<Part> parts = held_by(world_rank);
  std::erase_if(parts, [&](const Part& part) {
    const auto shard = static_cast<std::size_t>(shard_of(*homes_[part.tensor].parameter, world_rank));
    return savers_[part.tensor][shard] != world_rank;
  });
  return parts;
}

void TrainingState::read(const Part& part, uint64_t first, std::size_t bytes, void* to) const {
  memory_.read(to, homes_[part.tensor].memory, part.offset + first, bytes);
}

void TrainingState::write(const Part& part, uint64_t first, std::size_t bytes, const void* from) const {
  memory_.write(homes_[part.tensor].memory, from, part.offset + first, bytes);
}

void TrainingState::refresh_parameters() const {
  std::vector<std::byte> from, to;
  for (std::size_t i = 0; i < model_.parameters.size(); ++i) {
    if (model_.parameters[i].value == model_.parameters[i].master) continue;
    const Tensor &master = homes_[masters_[i]].memory, &value = values_[i];
    const auto elements = static_cast<std::size_t>(master.elements());
    for (std::size_t at = 0; at < elements; at += kPieceElements) {
      const std::size_t count = std::min(kPieceElements, elements - at), wide = size_of(master.dtype),
                        narrow = size_of(value.dtype);
      from.resize(count * wide);
      to.resize(count * narrow);
      memory_.read(from.data(), master, at * wide, from.size());
      const auto n = static_cast<int64_t>(count);
      round_master({from.data(), {n}, master.dtype}, {to.data(), {n}, value.dtype}, count);
      memory_.write(value, to.data(), at * narrow, to.size());
    }
  }
}

}  // namespace recollect
