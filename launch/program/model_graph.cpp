#include "launch/program/model_graph.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "checkpointing/residency_ops.h"
#include "checkpointing/verify.h"
#include "comm/collective_ops.h"
#include "engine/core/error.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/join_ops.h"
#include "engine/ops/ops.h"
#include "launch/config/lora_keys.h"
#include "launch/program/optimizer_settings.h"
#include "launch/program/task.h"
#include "parallel/optimizers/eight_bit.h"
#include "parallel/optimizers/groups.h"
#include "parallel/state_ops.h"

namespace recollect {

namespace {

std::shared_ptr<const OpRegistry> all_ops() {
  auto registry = std::make_shared<OpRegistry>();
  register_engine_ops(*registry);
  register_comm_ops(*registry);
  register_checkpointing_ops(*registry);
  register_verify_ops(*registry);
  register_state_ops(*registry);
  return registry;
}

// Refuses an 8-bit rule for a model that would have no 8-bit state.
void check_eight_bit(const Config& config, const Model& model) {
  const std::string& rule = config.optimizer.name;
  constexpr std::string_view kEnd = "8bit";
  if (!rule.ends_with(kEnd) || std::any_of(model.parameters.begin(), model.parameters.end(),
                                           [](const Parameter& p) { return !p.frozen && is_quantised(p); }))
    return;
  const auto origin = config.origins.find("optimizer.name");
  throw Error(
      ExitCode::kConfiguration,
      fmt::format(
          "{}optimizer.name {} has no effect: states of 8 bits are those of matrices of {} elements and "
          "more, and no such matrix is trained",
          origin == config.origins.end() ? "" : origin->second.text + ": ", rule, kLeastQuantised),
      fmt::format("write {}", rule.substr(0, rule.size() - kEnd.size())));
}

// Refuses device.gelu_in_products if it would have no effect, for example with adapters.
void check_gelu(const Config& config, const Graph& graph) {
  if (!config.device.gelu_in_products ||
      std::any_of(graph.ops().begin(), graph.ops().end(),
                  [](const Op& op) { return op.def->name == "linear_gelu"; }))
    return;
  const auto origin = config.origins.find("device.gelu_in_products");
  throw Error(ExitCode::kConfiguration,
              fmt::format("{}device.gelu_in_products has no effect: adapters stand between every product and "
                          "its GELU",
                          origin == config.origins.end() ? "" : origin->second.text + ": "),
              "leave it out, or take other modules as lora.targets");
}

// Stored FP8 codes of a weight stay valid until the optimizer changes the weight; those of frozen weights
// always stay valid.
void make_once(Graph& graph, const std::vector<Parameter>& parameters) {
  std::set<ValueId> frozen;
  for (const Parameter& p : parameters)
    if (p.frozen) frozen.insert(p.value);
  for (const OpId id : graph.op_ids()) {
    Op& op = graph.op(id);
    if (op.when == RunWhen::kFirstMicroBatch && frozen.contains(op.inputs[0])) op.when = RunWhen::kOnce;
  }
}

}  // namespace

ModelGraph build_model(const Config& config, const Mesh& mesh, const BatchShape& shape) {
  ModelGraph built{.registry = all_ops(), .model = {}, .graph = {}, .samples = shape.samples};
  const ParallelLayout layout{mesh.tensor_rank(), mesh.tensor_size(), config.parallelism.sequence_parallel};
  const Config::Model& m = config.model;
  built.model = m.family().build(built.graph, *built.registry, m.values, task_settings(config), shape, layout,
                                 compute_dtype(config.training.precision));
  check_adapters(built.model, lora_settings(config));
  return built;
}

ModelGraph differentiate_model(ModelGraph built, const Config& config) {
  assign_groups(built.graph, built.model, optimizer_settings(config));
  check_eight_bit(config, built.model);
  check_gelu(config, built.graph);
  make_once(built.graph, built.model.parameters);
  std::vector<ValueId> targets;
  for (const Parameter& p : built.model.parameters)
    if (!p.frozen) targets.push_back(p.value);
  const Gradients gradients =
      differentiate(built.graph, *built.registry, targets, {{built.model.loss, kNone}});
  for (Parameter& p : built.model.parameters)
    if (!p.frozen) p.gradient = gradients.at(p.value);
  if (config.device.backend == BackendKind::kCuda) join_sums(built.graph);
  built.saved.emplace(built.graph);
  return built;
}

}  // namespace recollect
