// Makes the initial state of a run from a model in Hugging Face's format: the tensors of the files, random
// values for tensors that the files may lack, and the initial optimizer state. A tensor that the files store
// transposed is held in memory as a whole; of the others only a piece at a time.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/standard_output.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/optimizer_settings.h"
#include "launch/program/recorded.h"
#include "launch/program/training_program.h"
#include "launch/ranks/inputs.h"
#include "launch/snapshot/convert.h"
#include "launch/snapshot/destination.h"
#include "launch/train/snapshot_lock.h"
#include "parallel/model_files.h"
#include "parallel/snapshot/snapshot_rewriter.h"

namespace recollect {

namespace {

// Reads rows of parameters in the layout that they have in a run's memory.
class BeginningState {
 public:
  BeginningState(const Model& model, const SafetensorsSet& files, uint64_t seed)
      : model_(model),
        files_(files),
        seed_(seed),
        names_(find_tensors(model, files)),
        drawn_(drawn_places(model.parameters)) {}

  std::vector<std::string> drawn() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i].empty()) names.push_back(model_.parameters[i].name);
    return names;
  }

  template <typename T>
  void read(std::size_t parameter, std::size_t block, const Rectangle& place, T* to) {
    const Parameter& p = model_.parameters[parameter];
    if (names_[parameter].empty()) return draw(parameter, p.file_tensors()[block].first_row, place, to);
    const std::string& name = names_[parameter][block];
    if (p.transposed_in_file) return read_turned(name, p.file_tensors()[block].rows, p.columns, place, to);
    if (place.columns == p.columns) return files_.read_as(name, to, place.row, place.rows);
    std::vector<T> line(static_cast<std::size_t>(p.columns));
    for (int64_t r = 0; r < place.rows; ++r, to += place.columns) {
      files_.read_as(name, line.data(), place.row + r, 1);
      std::copy_n(line.data() + place.column, place.columns, to);
    }
  }

  // For a parameter without a master copy.
  template <typename T>
  void read_rounded(std::size_t parameter, std::size_t block, const Rectangle& place, T* to) {
    std::vector<float> wide(static_cast<std::size_t>(place.elements()));
    read(parameter, block, place, wide.data());
    std::transform(wide.begin(), wide.end(), to, [](float value) { return T(value); });
  }

 private:
  template <typename T>
  void draw(std::size_t parameter, int64_t first_row, const Rectangle& place, T* to) const {
    for (int64_t r = 0; r < place.rows; ++r, to += place.columns)
      recollect::draw(model_.parameters[parameter], drawn_[parameter], first_row + place.row + r,
                      place.column, place.columns, seed_, to);
  }

  template <typename T>
  void read_turned(const std::string& name, int64_t rows, int64_t columns, const Rectangle& place, T* to) {
    if (whole_name_ != name) {
      whole_name_ = name;
      whole_.resize(static_cast<std::size_t>(rows * columns) * sizeof(T));
      files_.read_as(name, reinterpret_cast<T*>(whole_.data()));
    }
    const T* const from = reinterpret_cast<const T*>(whole_.data());
    for (int64_t r = 0; r < place.rows; ++r)
      for (int64_t c = 0; c < place.columns; ++c) *to++ = from[(place.column + c) * rows + place.row + r];
  }

  const Model& model_;
  const SafetensorsSet& files_;
  const uint64_t seed_;
  const std::vector<std::vector<std::string>> names_;
  const std::vector<uint64_t> drawn_;
  std::string whole_name_;  // of the tensor in whole_
  std::vector<std::byte> whole_;
};

// The parameter and the block of a tensor of the layout.
struct Beginning {
  std::size_t parameter, block;
  bool master;
};

StateLayout layout_of_training(const Model& model, const Graph& graph, const RankLayout& ranks,
                               std::vector<Beginning>& origins) {
  StateLayout layout(static_cast<int>(ranks.tensor), ranks.world());
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const Parameter& p = model.parameters[i];
    if (p.is_stored()) continue;
    std::vector<StateLayout::Kept> kept{{"", graph.value(p.master).dtype}};
    for (const Parameter::State& state : p.states)
      kept.push_back({state.name, graph.value(state.value).dtype, state.of});
    layout.add(p, kept);
    for (std::size_t block = 0; block < p.file_tensors().size(); ++block)
      for (std::size_t k = 0; k < kept.size(); ++k) origins.push_back({i, block, k == 0});
  }
  return layout;
}

TrainingProgress no_progress(const Config::Training& t) {
  const double scale = t.dynamic_loss_scale() ? t.initial_loss_scale : t.loss_scale;
  return {.step = 0, .updates = 0, .samples = 0, .loss_scale = t.scales_loss() ? scale : 1};
}

}  // namespace

std::string convert_from_hugging_face(const Conversion& conversion, const Config& given,
                                      const RankLayout& ranks) {
  Config config = given;
  resolve_planned_world(config);
  if (config.training.max_steps == 0)
    throw Error(ExitCode::kConfiguration, "training.max_steps 0: a run that trains nothing has no state");
  const SnapshotFolder folder = snapshot_place(conversion, 0);
  const Descriptor lock = lock_snapshots(folder.path());
  ModelGraph built = differentiate_model(model_of_layout(config, ranks), config);
  append_optimizer(built.graph, *built.registry, built.model.parameters, built.model.loss,
                   optimizer_settings(config), static_cast<int>(ranks.data), static_cast<int>(ranks.tensor));
  std::vector<Beginning> origins;
  const StateLayout layout = layout_of_training(built.model, built.graph, ranks, origins);
  const SafetensorsSet files(conversion.source);
  BeginningState state(built.model, files, static_cast<uint64_t>(config.training.seed));
  if (const std::vector<std::string> drawn = state.drawn(); !drawn.empty())
    warn("not in {}, and drawn at random: {}", printable(conversion.source), fmt::join(drawn, ", "));
  Config begun = config;
  begun.model.pretrained = conversion.source;
  const ReadTensor read = [&](std::size_t tensor, const Rectangle& place, std::byte* to) {
    const auto& [parameter, block, master] = origins[tensor];
    const DType dtype = layout.tensors()[tensor].dtype;
    if (!master)
      std::memset(to, 0, static_cast<std::size_t>(place.elements()) * size_of(dtype));
    else if (dtype == DType::kF64)
      state.read(parameter, block, place, reinterpret_cast<double*>(to));
    else if (dtype == DType::kF32)
      state.read(parameter, block, place, reinterpret_cast<float*>(to));
    else if (dtype == DType::kBF16)
      state.read_rounded(parameter, block, place, reinterpret_cast<bf16*>(to));
    else
      state.read_rounded(parameter, block, place, reinterpret_cast<f16*>(to));
  };
  write_snapshot(folder,
                 {.progress = no_progress(config.training),
                  .ranks = axes_of(config, ranks),
                  .versions = {{"recollect", recorded_line(config)}},
                  .configuration = dump_resolved(config),
                  .inputs = contents_of_inputs(begun),
                  .files = {},
                  .tensors = {}},
                 layout, read);
  return written_line(folder, 0, ranks);
}

}  // namespace recollect
