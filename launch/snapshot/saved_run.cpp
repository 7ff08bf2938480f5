#include "launch/snapshot/saved_run.h"

#include <fmt/format.h>

#include "comm/bootstrap.h"
#include "launch/config/read.h"
#include "launch/program/lengths.h"
#include "launch/program/task.h"
#include "parallel/mesh.h"

namespace recollect {

namespace {

void check_divides(const Config& config, const RankLayout& layout) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitCode::kConfiguration, fmt::format("--tensor-parallel-size {}: {}", layout.tensor, what),
                "a run of that layout would be refused too");
  };
  if (layout.tensor < 1 || layout.data < 1 || layout.tensor > kMostRanks / layout.data)
    throw Error(ExitCode::kConfiguration,
                fmt::format("{} x {} ranks: a world has 1 to {}", layout.tensor, layout.data, kMostRanks));
  for (const ModelFact& fact : config.model.facts().divided)
    if (fact.value % layout.tensor != 0)
      refuse(fmt::format("it does not divide model.{} {}", fact.key, fact.value));
  for (const ModelFact& fact : config.model.facts().divided_or_repeated)
    if (fact.value % layout.tensor != 0 && layout.tensor % fact.value != 0)
      refuse(fmt::format("it is neither a divisor nor a multiple of model.{} {}", fact.key, fact.value));
}

void set_layout(Config& config, const RankLayout& layout) {
  config.parallelism.tensor_parallel_size = layout.tensor;
  config.parallelism.data_parallel_size = layout.data;
  config.parallelism.sequence_parallel = false;
}

}  // namespace

SavedRun saved_run(const Manifest& manifest, const std::string& folder) {
  const std::string name = folder + "/" + std::string(kManifestName) + ", configuration";
  const auto read = [&](const std::vector<std::string>& overrides) {
    return read_config_text(name, manifest.configuration, overrides, kAnyBuild);
  };
  try {
    return {read({}), false};
  } catch (const Error&) {
  }
  try {  // named files may be on another machine
    return {
        read({"model.pretrained=", "model.config=", "device.model=cpu", "lora.path=", "lora.merge=false"}),
        true};
  } catch (const Error& error) {
    throw Error(ExitCode::kInput, error.what(), "another version of this program may have saved it");
  }
}

RankLayout layout_of(const Manifest& manifest) {
  const auto size = [&](std::string_view axis) {
    const auto found = manifest.ranks.find(std::string(axis));
    return found == manifest.ranks.end() ? 1 : found->second;
  };
  return {.tensor = size(kTensorAxis), .data = size(kDataAxis)};
}

std::map<std::string, int64_t> axes_of(Config config, const RankLayout& layout) {
  set_layout(config, layout);
  std::map<std::string, int64_t> axes;
  for (const MeshAxis& axis : mesh_axes(config)) axes[axis.name] = axis.size;
  return axes;
}

ModelGraph model_of_layout(Config config, const RankLayout& layout) {
  check_divides(config, layout);
  set_layout(config, layout);
  config.training.micro_batch_size = 1;
  const Mesh mesh = Mesh::planned(0, mesh_axes(config), [](int) { return std::size_t{0}; });
  return build_model(config, mesh, batch_shape(config));
}

}  // namespace recollect
