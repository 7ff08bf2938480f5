#include "checkpointing/switch_effects.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"

namespace recollect {

namespace {

using Keys = CheckpointingSettings;
using Findings = std::vector<Finding>;

using Refusal = std::optional<Error>;

Error without_effect(const std::string& what, const std::string& why, const std::string& hint) {
  return Error(ExitCode::kConfiguration,
               fmt::format("activation_checkpointing.{} has no effect: {}", what, why), hint);
}

// Modes auto and dtr decide by their budget what is done; the settings say what they may do.
bool is_planned(const Keys& c) {
  return c.mode == CheckpointingMode::kDtr ||
         (c.mode == CheckpointingMode::kAuto && c.budget_policy != BudgetPolicy::kFixed);
}

std::string values(int64_t count) { return fmt::format("{} {}", count, count == 1 ? "value" : "values"); }

void check_storage_dtype(const Keys& c, const CheckpointedRun& run, Findings& found) {
  if (c.storage_dtype == StorageDType::kSame) return;
  if (c.verify) {
    found.push_back(
        {{"activation_checkpointing.storage_dtype", "activation_checkpointing.verify"},
         fmt::format(
             "activation_checkpointing.verify compares bits, and activation_checkpointing.storage_dtype {} "
             "changes them: give one of the two",
             name_of(c.storage_dtype))});
  }
  if (c.storage_dtype == StorageDType::kBF16 && size_of(run.dtype) <= size_of(DType::kBF16)) {
    found.push_back(
        {{"activation_checkpointing.storage_dtype", "training.precision"},
         fmt::format("activation_checkpointing.storage_dtype bf16 has no effect with training.precision {}: "
                     "saved activations have {} already",
                     run.dtype == DType::kBF16 ? "bf16" : "fp16",
                     run.dtype == DType::kBF16 ? "that type" : "as few bits"),
         true});
  }
}

void check_recomputation(const Keys& c, Findings& found) {
  const bool every_k = c.mode == CheckpointingMode::kEveryK;
  if (every_k != (c.k > 0)) {
    found.push_back({{"activation_checkpointing.k", "activation_checkpointing.mode"},
                     every_k ? "activation_checkpointing.mode every_k needs activation_checkpointing.k"
                             : "activation_checkpointing.k has no effect without mode every_k",
                     !every_k});
  }
  if (!c.recompute.empty() && c.mode != CheckpointingMode::kSelective) {
    found.push_back({{"activation_checkpointing.recompute", "activation_checkpointing.mode"},
                     "activation_checkpointing.recompute has no effect without mode selective",
                     true});
  }
  if (c.plan.empty()) return;
  const std::string plan = "activation_checkpointing.plan";
  for (const auto& [key, given] : {std::pair{"mode", c.mode != CheckpointingMode::kNone},
                                   std::pair{"partition_activations", c.partition_activations},
                                   std::pair{"cpu_checkpointing", c.cpu_checkpointing}}) {
    if (!given) continue;
    const std::string other = std::string("activation_checkpointing.") + key;
    const std::string why =
        plan + " decides what is recomputed and where the rest lives: " + key + " must not be given with it";
    found.push_back({{plan, other}, why, true});
    found.push_back({{other, plan}, why, true});
  }
}

using Find = std::function<void(const std::string& key, const std::string& what, bool gives_way)>;

void check_residences_and_layers(const Keys& c, const CheckpointedRun& run, bool chooses, const Find& find) {
  if (c.host_memory_budget > 0 && c.cpu_checkpointing)
    find("cpu_checkpointing",
         "has no effect: activation_checkpointing.host_memory_budget says that the planner may "
         "use host memory, and how much of it",
         true);
  if (c.partition_activations && chooses)
    find("partition_activations",
         "has no effect with mode auto: the planner may partition what it saves anyway", true);
  for (const auto& [key, given] : {std::pair{"host_memory_budget", c.host_memory_budget > 0},
                                   std::pair{"replan_after", c.replan_after > 0}})
    if (given && !chooses)
      find(key, "has no effect: activation_checkpointing.budget_policy leaves nothing to plan", true);
  const bool fixed = c.budget_policy == BudgetPolicy::kFixed;
  if (fixed != !c.recompute_layers.empty())
    find("recompute_layers",
         fixed ? "must name the layers that budget_policy fixed recomputes"
               : "has no effect without activation_checkpointing.budget_policy fixed",
         !fixed);
  for (std::size_t i = 0; i < c.recompute_layers.size(); ++i) {
    const std::string& layer = c.recompute_layers[i];
    const bool digits =
        !layer.empty() && layer.size() < 7 && layer.find_first_not_of("0123456789") == layer.npos;
    if (!digits || std::stoll(layer) >= run.layers || layer != std::to_string(std::stoll(layer)))
      find("recompute_layers",
           fmt::format("names layer {}, and those of the model are 0 to {}", layer, run.layers - 1), false);
    else if (std::find(c.recompute_layers.begin(),
                       c.recompute_layers.begin() + static_cast<std::ptrdiff_t>(i),
                       layer) != c.recompute_layers.begin() + static_cast<std::ptrdiff_t>(i))
      find("recompute_layers", fmt::format("names layer {} twice", layer), false);
  }
}

void check_budgets(const Keys& c, const CheckpointedRun& run, Findings& found) {
  const std::string section = "activation_checkpointing.";
  const Find find = [&](const std::string& key, const std::string& what, bool gives_way) {
    Finding finding{{section + key}, section + key + " " + what, gives_way};
    for (const char* other : {"mode", "budget_policy", "host_memory_budget"})
      if (key != other) finding.keys.push_back(section + other);
    finding.keys.emplace_back("device.memory_limit");
    found.push_back(std::move(finding));
  };
  const bool automatic = c.mode == CheckpointingMode::kAuto, evicts = c.mode == CheckpointingMode::kDtr;
  if (!automatic) {
    for (const auto& [key, given] : {std::pair{"host_memory_budget", c.host_memory_budget > 0},
                                     std::pair{"budget_policy", c.budget_policy != BudgetPolicy::kDynamic},
                                     std::pair{"replan_after", c.replan_after > 0},
                                     std::pair{"recompute_layers", !c.recompute_layers.empty()}})
      if (given) find(key, "has no effect without mode auto", true);
    if (c.memory_budget > 0 && !evicts) find("memory_budget", "has no effect without mode auto or dtr", true);
    if (!evicts) return;
  }
  const std::string with_mode = "with mode " + std::string(name_of(c.mode));
  if (c.memory_budget == 0 && run.memory_limit == 0)
    find("memory_budget", "must be given " + with_mode + ", or device.memory_limit", false);
  if (run.memory_limit > 0 && c.memory_budget >= run.memory_limit)
    find("memory_budget", "has no effect: device.memory_limit allows no more", true);
  const bool chooses =
      evicts || c.budget_policy == BudgetPolicy::kDynamic || c.budget_policy == BudgetPolicy::kStatic;
  if (c.number_checkpoints > 0 && chooses)
    find("number_checkpoints", "cannot be checked " + with_mode + ": the planner decides", true);
  if (c.storage_dtype != StorageDType::kSame && chooses)
    find("storage_dtype", "cannot be given " + with_mode + ": what is rounded would depend on the budget",
         true);
  if (automatic) check_residences_and_layers(c, run, chooses, find);
}

void check_partition(const Keys& c, const CheckpointedRun& run, Findings& found) {
  if (c.partition_activations && run.tensor_ranks == 1) {
    found.push_back(
        {{"activation_checkpointing.partition_activations", "parallelism.tensor_parallel_size"},
         "activation_checkpointing.partition_activations has no effect with one tensor rank: there is "
         "nobody to share saved activations with",
         true});
  }
  if (c.partition_activations && run.sequence_parallel) {
    found.push_back(
        {{"activation_checkpointing.partition_activations", "parallelism.sequence_parallel"},
         "activation_checkpointing.partition_activations has no effect under sequence parallelism: saved "
         "activations are divided over the tensor ranks already",
         true});
  }
}

void check_reach(const Keys& c, const CheckpointedRun& run, Findings& found) {
  const bool packs = c.storage_dtype != StorageDType::kSame;
  const bool leaves =
      c.partition_activations || c.cpu_checkpointing || !c.disk_checkpointing.path.empty() ||
      !c.plan.empty() ||
      (c.mode == CheckpointingMode::kAuto && (c.host_memory_budget > 0 || run.tensor_ranks > 1));
  const auto find = [&](const std::string& key, const std::string& what) {
    const std::string section = "activation_checkpointing.";
    Finding finding{{section + key}, section + key + " has no effect: " + what, true};
    for (const char* other : {"mode", "partition_activations", "cpu_checkpointing", "disk_checkpointing.path",
                              "storage_dtype", "host_memory_budget", "plan"})
      finding.keys.push_back(section + other);
    found.push_back(std::move(finding));
  };
  for (const auto& [key, value] : {std::pair{"keep_last", c.keep_last}, std::pair{"prefetch", c.prefetch}})
    if (value >= 0 && !leaves && !(packs && key == std::string_view("keep_last")))
      find(key,
           "no saved activation leaves the device (partition_activations, cpu_checkpointing, "
           "disk_checkpointing)");
  if (c.verify && c.mode == CheckpointingMode::kNone && !leaves && !packs)
    find("verify", "nothing is recomputed, gathered or brought back");
  if ((leaves || packs) && c.keep_last >= run.layers) {
    found.push_back(
        {{"activation_checkpointing.keep_last", run.layers_key},
         fmt::format("activation_checkpointing.keep_last {} leaves the saved activations of all {} layers "
                     "where they are: partition_activations, cpu_checkpointing, disk_checkpointing and "
                     "storage_dtype have no effect",
                     c.keep_last, run.layers)});
  }
}

// Of mode selective: the layers have no op of the groups, or no gradient reads what those make.
std::string why_nothing_is_cheap(const Keys& c, const Graph& graph) {
  std::vector<std::string> absent, unread;
  for (const std::string& group : c.recompute.empty() ? cheap_groups() : c.recompute) {
    bool is_there = false;
    for (const OpId id : graph.op_ids()) {
      const Op& op = graph.op(id);
      is_there |=
          op.layer >= 0 && op.phase == Phase::kForward && (op.def->group == group || op.block == group);
    }
    (is_there ? unread : absent).push_back(group);
  }
  std::string why;
  if (!absent.empty())
    why = fmt::format(
        "no layer of the model has an op of {}{}", fmt::join(absent, " or "),
        absent.size() == 1 && absent.front() == "dropout" ? ", since its probabilities are 0" : "");
  if (!unread.empty())
    why += fmt::format("{}no gradient reads what {} make, as where the weights behind them are frozen",
                       why.empty() ? "" : ", and ", fmt::join(unread, " and "));
  return why;
}

// A plan that runs nothing again and sends nothing away is mode none.
Refusal check_something_is_done(const Keys& c, const Graph& graph, const Plan& plan, int64_t layers) {
  const auto none = [&](auto differs) {
    return std::none_of(plan.values.begin(), plan.values.end(), differs);
  };
  if (!c.plan.empty()) {
    if (!none([](const auto& item) { return item.second != Decision{}; })) return {};
    return without_effect("plan", c.plan + " saves every activation on the device, as mode none does",
                          "leave it out, or let it recompute or move something");
  }
  if (is_planned(c)) return {};  // a budget is a limit, and may be ample
  if (c.mode == CheckpointingMode::kNone || !none([](const auto& item) { return !item.second.save; }))
    return {};
  const std::string what =
      fmt::format("mode {}{}", name_of(c.mode), c.k > 0 ? fmt::format(" with k {}", c.k) : "");
  if (c.mode == CheckpointingMode::kSelective)
    return without_effect(c.recompute.empty() ? what : "recompute", why_nothing_is_cheap(c, graph),
                          "leave it out, or choose another mode: full runs whole layers again");
  return without_effect(
      what, fmt::format("with {} {} nothing is run again", layers, layers == 1 ? "layer" : "layers"),
      "leave it out, or choose another mode");
}

Refusal check_number(const Keys& c, const Graph& graph, const SavedActivations& activations,
                     const Plan& plan) {
  if (c.number_checkpoints == 0) return {};
  const std::vector<ValueId>& inputs = activations.layer_inputs();
  const auto saved = std::count_if(inputs.begin(), inputs.end(),
                                   [&](ValueId v) { return plan.values.at(graph.value(v).name).save; });
  if (saved == c.number_checkpoints) return {};
  return Error(
      ExitCode::kConfiguration,
      fmt::format("activation_checkpointing.number_checkpoints is {}, but {} saves {} layer inputs of {}",
                  c.number_checkpoints, c.plan.empty() ? fmt::format("mode {}", name_of(c.mode)) : c.plan,
                  saved, inputs.size()),
      "leave it out: the number follows from the plan");
}

// Groups without which the plan would be the same.
std::vector<Remark> idle_groups(const CheckpointingSettings& settings, const Graph& graph,
                                const SavedActivations& saved, const Plan& plan) {
  std::vector<Remark> remarks;
  for (std::size_t i = 0; settings.recompute.size() > 1 && i < settings.recompute.size(); ++i) {
    CheckpointingSettings others = settings;
    others.recompute.erase(others.recompute.begin() + static_cast<std::ptrdiff_t>(i));
    if (make_plan(graph, saved, others) == plan)
      remarks.push_back(
          {"recompute", fmt::format("{} adds nothing to the other groups", settings.recompute[i])});
  }
  return remarks;
}

// Saved activations of layers that a switch cannot divide any more.
int64_t sharded(const Graph& graph, const SavedActivations& saved, const Plan& plan) {
  return std::count_if(saved.values().begin(), saved.values().end(), [&](ValueId v) {
    const Value& value = graph.value(v);
    return plan.values.at(value.name).save && value.layer >= 0 &&
           value.placement.is_sharded_over(kTensorAxis);
  });
}

std::string staying_text(int64_t behind, int64_t last, int64_t keep_last) {
  std::string why;
  if (behind > 0) why = fmt::format("{} read after the last layer", behind);
  if (last > 0)
    why += fmt::format("{}{} read first by the last {} (keep_last)", why.empty() ? "" : ", ", last,
                       keep_last == 1 ? "layer" : fmt::format("{} layers", keep_last));
  return fmt::format("{} needed at once and not moved: {}", values(behind + last), why);
}

Refusal check_pool(const Keys& c, const Graph& graph) {
  const auto pooled = [](const Value& value) { return value.pooled; };
  if (c.contiguous_checkpointing || std::any_of(graph.values().begin(), graph.values().end(), pooled))
    return {};
  return without_effect("contiguous_checkpointing false", "no activation is saved that the pool could hold",
                        "leave it out");
}

// Of switches that ask for a move: did any value move?
Refusal check_something_is_moved(const Keys& c, const Plan& plan, const ResidencyReport& moved) {
  const auto planned = [&](bool Decision::*switched) {
    return std::any_of(plan.values.begin(), plan.values.end(),
                       [&](const auto& item) { return item.second.*switched; });
  };
  const bool disk = !c.disk_checkpointing.path.empty();
  if (planned(&Decision::disk) && !disk)
    return Error(ExitCode::kConfiguration,
                 "activation_checkpointing.plan sends values to the disk, and nobody says where",
                 "give activation_checkpointing.disk_checkpointing.path");
  const auto how = c.plan.empty() ? fmt::format("in mode {}", name_of(c.mode)) : "by " + c.plan;
  struct Asked {
    const char* key;
    bool asked;
    int64_t values;
  };
  const bool by_plan = !c.plan.empty();
  for (const Asked& a : {Asked{"partition_activations", c.partition_activations, moved.partitioned_values},
                         Asked{"cpu_checkpointing", c.cpu_checkpointing, moved.host_values},
                         Asked{"disk_checkpointing", disk, moved.disk_values},
                         Asked{"storage_dtype", c.storage_dtype != StorageDType::kSame, moved.packed_values},
                         Asked{"plan", by_plan && planned(&Decision::partition), moved.partitioned_values},
                         Asked{"plan", by_plan && planned(&Decision::host), moved.host_values}})
    if (a.asked && a.values == 0)
      return without_effect(a.key, how + " every value that it could move is needed at once",
                            "use more layers, another mode, or a smaller keep_last");
  return {};
}

Refusal check_verify(const Keys& c, std::size_t remade) {
  if (!c.verify || remade > 0) return {};
  return without_effect("verify", "nothing is recomputed, gathered or brought back",
                        "choose a mode, a switch or a plan");
}

// Only what was given can be without effect.
Refusal check_distances(const Keys& c, const ResidencyReport& moved) {
  for (const auto& [key, given] : {std::pair{"keep_last", c.keep_last}, std::pair{"prefetch", c.prefetch}})
    if (given >= 0 && moved.returned.empty())
      return without_effect(key, "no saved activation leaves the device", "leave it out");
  if (c.keep_last < 0 || moved.keep_last_that_matters > 0) return {};
  return without_effect(fmt::format("keep_last {}", c.keep_last),
                        fmt::format("nothing that leaves is read by the last {}",
                                    c.keep_last < 2 ? "layer" : fmt::format("{} layers", c.keep_last)),
                        "leave it out");
}

std::vector<Remark> remark_on_distances(const Keys& c, const ResidencyReport& moved) {
  std::vector<Remark> remarks;
  if (c.keep_last > moved.keep_last_that_matters)
    remarks.push_back(
        {"keep_last", fmt::format("keeps no more than {} would", moved.keep_last_that_matters)});
  if (c.prefetch > moved.prefetch_that_matters)
    remarks.push_back(
        {"prefetch", fmt::format("is no earlier than {} would be", moved.prefetch_that_matters)});
  return remarks;
}

}  // namespace

std::vector<Finding> check_settings(const CheckpointingSettings& settings, const CheckpointedRun& run) {
  Findings found;
  check_recomputation(settings, found);
  check_budgets(settings, run, found);
  check_partition(settings, run, found);
  check_reach(settings, run, found);
  check_storage_dtype(settings, run, found);
  return found;
}

Judgement check_plan(const CheckpointingSettings& c, const Graph& graph, const SavedActivations& saved,
                     const Plan& plan, int64_t divided_already) {
  if (c.is_compared) return {};
  if (Refusal no = check_something_is_done(c, graph, plan, static_cast<int64_t>(saved.layer_inputs().size())))
    return {no, {}};
  if (Refusal no = check_number(c, graph, saved, plan)) return {no, {}};
  std::vector<Remark> remarks = idle_groups(c, graph, saved, plan);
  if (c.partition_activations) divided_already = sharded(graph, saved, plan);
  if (divided_already > 0)
    remarks.push_back({c.partition_activations ? "partition_activations" : "plan",
                       values(divided_already) + " divided over the tensor ranks already"});
  return {{}, std::move(remarks)};
}

Judgement check_moves(const CheckpointingSettings& c, const Graph& graph, const Plan& plan,
                      const ResidencySettings& moves, const ResidencyReport& moved, std::size_t remade) {
  if (is_planned(c) || c.is_compared) return {};
  for (const Refusal& no : {check_something_is_moved(c, plan, moved), check_pool(c, graph),
                            check_distances(c, moved), check_verify(c, remade)})
    if (no) return {no, {}};
  std::vector<Remark> remarks = remark_on_distances(c, moved);
  const Staying &behind = moved.read_behind_layers, &last = moved.read_in_last_layers;
  const auto staying = [&](const char* key, int64_t Staying::*count) {
    if (behind.*count + last.*count > 0)
      remarks.push_back({key, staying_text(behind.*count, last.*count, moves.keep_last)});
  };
  const bool planned = !c.plan.empty();
  staying(planned ? "plan, partitioned" : "partition_activations", &Staying::partition);
  staying(planned ? "plan, host" : "cpu_checkpointing", &Staying::host);
  staying(planned ? "plan, disk" : "disk_checkpointing", &Staying::disk);
  return {{}, std::move(remarks)};
}

}  // namespace recollect
