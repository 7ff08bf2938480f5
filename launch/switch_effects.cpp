#include "launch/switch_effects.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {

namespace {

using Keys = Config::ActivationCheckpointing;

Error without_effect(const std::string& what, const std::string& why, const std::string& hint) {
  return Error(ExitCode::kConfiguration,
               fmt::format("activation_checkpointing.{} has no effect: {}", what, why), hint);
}

std::string values(int64_t count) { return fmt::format("{} {}", count, count == 1 ? "value" : "values"); }

// A plan that runs nothing again and sends nothing away is mode none.
void check_something_is_done(const Keys& c, const Plan& plan, int64_t layers) {
  const auto none = [&](auto differs) {
    return std::none_of(plan.values.begin(), plan.values.end(), differs);
  };
  if (!c.plan.empty()) {
    if (none([](const auto& item) { return item.second != Decision{}; }))
      throw without_effect("plan", c.plan + " keeps every value on the device, as mode none does",
                           "leave it out, or let it recompute or move something");
  } else if (c.mode != CheckpointingMode::kNone && none([](const auto& item) { return !item.second.keep; })) {
    const std::string what =
        fmt::format("mode {}{}", name_of(c.mode), c.k > 0 ? fmt::format(" with k {}", c.k) : "");
    throw without_effect(
        c.recompute.empty() ? what : "recompute",
        fmt::format("with {} {} nothing is run again", layers, layers == 1 ? "layer" : "layers"),
        "leave it out, or choose another mode");
  }
}

void check_number(const Keys& c, const Graph& graph, const Plan& plan) {
  if (c.number_checkpoints == 0) return;
  const std::vector<ValueId> inputs = layer_inputs(graph);
  const auto kept = std::count_if(inputs.begin(), inputs.end(),
                                  [&](ValueId v) { return plan.values.at(graph.value(v).name).keep; });
  if (kept == c.number_checkpoints) return;
  throw Error(
      ExitCode::kConfiguration,
      fmt::format("activation_checkpointing.number_checkpoints is {}, but {} keeps {} layer inputs of {}",
                  c.number_checkpoints, c.plan.empty() ? fmt::format("mode {}", name_of(c.mode)) : c.plan,
                  kept, inputs.size()),
      "leave it out: the number follows from the plan");
}

// Groups without which the plan would be the same.
std::vector<Remark> idle_groups(const PolicySettings& settings, const Graph& graph, const Plan& plan) {
  std::vector<Remark> remarks;
  for (std::size_t i = 0; settings.recompute.size() > 1 && i < settings.recompute.size(); ++i) {
    PolicySettings others = settings;
    others.recompute.erase(others.recompute.begin() + static_cast<std::ptrdiff_t>(i));
    if (make_plan(graph, others) == plan)
      remarks.push_back(
          {"recompute", fmt::format("{} adds nothing to the other groups", settings.recompute[i])});
  }
  return remarks;
}

// Kept values of layers that a switch cannot divide any more.
int64_t sharded(const Graph& graph, const Plan& plan) {
  const std::vector<ValueId> saved = saved_values(graph);
  return std::count_if(saved.begin(), saved.end(), [&](ValueId v) {
    const Value& value = graph.value(v);
    return plan.values.at(value.name).keep && value.layer >= 0 &&
           value.placement.is_sharded_over(kTensorAxis);
  });
}

std::string staying_text(int64_t behind, int64_t last, int64_t keep_last) {
  std::string why;
  if (behind > 0) why = fmt::format("{} read behind the layers", behind);
  if (last > 0)
    why += fmt::format("{}{} read first by the last {} (keep_last)", why.empty() ? "" : ", ", last,
                       keep_last == 1 ? "layer" : fmt::format("{} layers", keep_last));
  return fmt::format("{} needed at once and not moved: {}", values(behind + last), why);
}

void check_pool(const Keys& c, const Graph& graph) {
  const auto pooled = [](const Value& value) { return value.pooled; };
  if (c.contiguous_checkpointing || std::any_of(graph.values().begin(), graph.values().end(), pooled)) return;
  throw without_effect("contiguous_checkpointing false", "no value is kept that the pool could hold",
                       "leave it out");
}

// Only what was given can be without effect.
std::vector<Remark> check_reach(const Keys& c, const ResidencyReport& moved) {
  std::vector<Remark> remarks;
  const bool moves = !moved.returned.empty();
  for (const auto& [key, given] : {std::pair{"keep_last", c.keep_last}, std::pair{"prefetch", c.prefetch}})
    if (given >= 0 && !moves) throw without_effect(key, "no kept value leaves the device", "leave it out");
  if (c.keep_last >= 0 && moved.keep_last_that_matters == 0)
    throw without_effect(fmt::format("keep_last {}", c.keep_last),
                         fmt::format("nothing that leaves is read by the last {}",
                                     c.keep_last < 2 ? "layer" : fmt::format("{} layers", c.keep_last)),
                         "leave it out");
  if (c.keep_last > moved.keep_last_that_matters)
    remarks.push_back(
        {"keep_last", fmt::format("keeps no more than {} would", moved.keep_last_that_matters)});
  if (c.prefetch > moved.prefetch_that_matters)
    remarks.push_back(
        {"prefetch", fmt::format("is no earlier than {} would be", moved.prefetch_that_matters)});
  return remarks;
}

}  // namespace

std::vector<Remark> check_plan(const Config& config, const PolicySettings& settings, const Graph& graph,
                               const Plan& plan, int64_t divided_already) {
  const Keys& c = config.activation_checkpointing;
  check_something_is_done(c, plan, config.model.n_layer);
  check_number(c, graph, plan);
  std::vector<Remark> remarks = idle_groups(settings, graph, plan);
  if (c.partition_activations) divided_already = sharded(graph, plan);
  if (divided_already > 0)
    remarks.push_back({c.partition_activations ? "partition_activations" : "plan",
                       values(divided_already) + " divided over the tensor ranks already"});
  return remarks;
}

std::vector<Remark> check_moves(const Config& config, const Graph& graph, const ResidencySettings& moves,
                                const ResidencyReport& moved) {
  const Keys& c = config.activation_checkpointing;
  check_pool(c, graph);
  std::vector<Remark> remarks = check_reach(c, moved);
  const Staying &behind = moved.read_behind_layers, &last = moved.read_in_last_layers;
  const auto staying = [&](const char* key, int64_t Staying::*count) {
    if (behind.*count + last.*count > 0)
      remarks.push_back({key, staying_text(behind.*count, last.*count, moves.keep_last)});
  };
  const bool planned = !c.plan.empty();
  staying(planned ? "plan, partitioned" : "partition_activations", &Staying::partition);
  staying(planned ? "plan, host" : "cpu_checkpointing", &Staying::host);
  staying(planned ? "plan, disk" : "disk_checkpointing", &Staying::disk);
  return remarks;
}

}  // namespace recollect
