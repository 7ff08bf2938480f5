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

TrainingState::TrainingState(const Model& model, const Graph& graph, const ProgramMemory& memory,
                             const Mesh& mesh)
    : StateLayout(model, graph, mesh), model_(model), memory_(memory) {
  const auto in_memory = [&](ValueId value) { return memory.tensor(graph.value(value).name); };
  for (const Parameter& p : model.parameters) {  // as the layout goes through them
    values_.push_back(in_memory(p.value));
    masters_.push_back(homes_.size());
    homes_.push_back(in_memory(p.master));
    for (const Parameter::State& state : p.states) homes_.push_back(in_memory(state.value));
  }
}

void TrainingState::read(const Part& part, uint64_t first, std::size_t bytes, void* to) const {
  memory_.read(to, homes_[part.tensor], part.offset + first, bytes);
}

void TrainingState::write(const Part& part, uint64_t first, std::size_t bytes, const void* from) const {
  memory_.write(homes_[part.tensor], from, part.offset + first, bytes);
}

void TrainingState::refresh_parameters() const {
  std::vector<std::byte> from, to;
  for (std::size_t i = 0; i < model_.parameters.size(); ++i) {
    if (model_.parameters[i].value == model_.parameters[i].master) continue;
    const Tensor &master = homes_[masters_[i]], &value = values_[i];
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
