#include "parallel/snapshot/training_state.h"

#include <algorithm>

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

StateLayout state_layout(const Model& model, const Graph& graph, const Mesh& mesh) {
  const int size = mesh.tensor_size();
  StateLayout layout(size, mesh.world().size());
  for (const Parameter& p : model.parameters) {
    if (p.is_stored()) continue;  // Weights::store_base makes it again
    std::vector<StateLayout::Kept> kept;
    const auto matrices = static_cast<int64_t>(p.file_tensors().size());
    const auto keep = [&](const std::string& state, const Value& value, StateOf of = StateOf::kElements) {
      const bool divided = p.part_rows > 0 && value.placement.is_sharded_over(kDataAxis);
      const int64_t rows = of == StateOf::kColumns ? matrices
                           : divided               ? p.part_rows
                                                   : p.local_rows(size),
                    columns = of == StateOf::kRows     ? 1
                              : of == StateOf::kBlocks ? quantised_blocks(p.local_columns(size))
                                                       : p.local_columns(size);
      require(value.shape.elements() == rows * columns,
              "the state " + state_name(p.name, state) + " is not shaped like its parameter");
      kept.push_back({state, value.dtype, of, divided});
    };
    keep("", graph.value(p.master));
    for (const Parameter::State& state : p.states) keep(state.name, graph.value(state.value), state.of);
    layout.add(p, kept);
  }
  return layout;
}

TrainingState::TrainingState(const Model& model, const Graph& graph, const ProgramMemory& memory,
                             const Mesh& mesh)
    : memory_(memory), mesh_(mesh), layout_(state_layout(model, graph, mesh)) {
  for (const Parameter& p : model.parameters) {  // as the layout goes through them
    if (p.is_stored()) continue;
    const auto tensor = [&](ValueId value) { return memory.shared(graph.value(value).name); };
    std::vector<SharedTensor> kept{tensor(p.master)};
    for (const Parameter::State& state : p.states) kept.push_back(tensor(state.value));
    for (std::size_t block = p.file_tensors().size(); block > 0; --block)
      memories_.insert(memories_.end(), kept.begin(), kept.end());
    if (p.value != p.master)
      copies_.push_back({tensor(p.value), kept.front(), p.part_rows > 0 && p.whole == kNone});
  }
}

int TrainingState::world_rank() const { return mesh_.world().rank(); }

bool TrainingState::is_in_host_memory() const {
  return memory_.device().hardware().empty() &&
         std::none_of(memories_.begin(), memories_.end(),
                      [](const SharedTensor& memory) { return memory.space == MemorySpace::kDisk; });
}

void TrainingState::read(const Part& part, uint64_t first, std::size_t bytes, void* to) const {
  memory_.read(to, memories_[part.tensor], part.offset + first, bytes);
}

void TrainingState::write(const Part& part, uint64_t first, std::size_t bytes, const void* from) const {
  memory_.write(memories_[part.tensor], from, part.offset + first, bytes);
}

void TrainingState::refresh_parameters() const {
  std::vector<std::byte> from, to;
  for (const auto& [value, master, divided] : copies_) {
    const std::size_t whole = static_cast<std::size_t>(value.elements()),
                      part = static_cast<std::size_t>(master.elements()),
                      first =
                          divided ? std::min(whole, part * static_cast<std::size_t>(mesh_.data_rank())) : 0,
                      elements = std::min(part, whole - first);
    for (std::size_t at = 0; at < elements; at += kPieceElements) {
      const std::size_t count = std::min(kPieceElements, elements - at), wide = size_of(master.dtype),
                        narrow = size_of(value.dtype);
      from.resize(count * wide);
      to.resize(count * narrow);
      memory_.read(from.data(), master, at * wide, from.size());
      const auto n = static_cast<int64_t>(count);
      round_master({from.data(), {n}, master.dtype}, {to.data(), {n}, value.dtype}, count);
      memory_.write(value, to.data(), (first + at) * narrow, to.size());
    }
    if (divided) gather_from_data_ranks(value, master.elements());
  }
}

void TrainingState::gather_from_data_ranks(const SharedTensor& value, int64_t part_elements) const {
  const std::size_t width = size_of(value.dtype), whole = value.bytes(),
                    part = static_cast<std::size_t>(part_elements) * width;
  std::vector<std::byte> piece;
  for (int rank = 0; rank < mesh_.data_size(); ++rank)
    for (std::size_t at = static_cast<std::size_t>(rank) * part,
                     end = std::min(whole, static_cast<std::size_t>(rank + 1) * part);
         at < end; at += piece.size()) {
      piece.resize(std::min(kPieceElements * width, end - at));
      if (rank == mesh_.data_rank()) memory_.read(piece.data(), value, at, piece.size());
      mesh_.host_communicator(kDataAxis).broadcast(
          {piece.data(), {static_cast<int64_t>(piece.size())}, DType::kU8}, rank);
      if (rank != mesh_.data_rank()) memory_.write(value, piece.data(), at, piece.size());
    }
}

}  // namespace recollect
