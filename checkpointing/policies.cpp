#include "checkpointing/policies.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "checkpointing/binomial.h"
#include "engine/graph/op_def.h"

namespace recollect {

namespace {

// A plan in the making. At first it saves what is of no layer.
class Draft {
 public:
  Draft(const Graph& graph, const SavedActivations& saved, const CheckpointingSettings& settings)
      : settings_(settings), graph_(graph), saved_(saved), places_(graph.values().size()) {
    for (ValueId v : saved_.values()) {
      places_[v] = plan_.values.size();
      plan_.values.push_back({.save = layer_of(v) < 0 && !saved_.only_begins_layer(v)});
    }
  }

  const CheckpointingSettings& settings() const { return settings_; }
  const Graph& graph() const { return graph_; }
  const SavedActivations& saved() const { return saved_; }
  int64_t layers() const { return static_cast<int64_t>(saved_.layer_inputs().size()); }
  int layer_of(ValueId v) const { return graph_.value(v).layer; }

  void save(ValueId v) { decision(v).save = true; }
  void save_input(int64_t layer) { save(saved_.layer_inputs()[static_cast<std::size_t>(layer)]); }
  void save_inputs() {
    for (ValueId v : saved_.layer_inputs()) save(v);
  }
  // Decides on all values that backward reads: those are saved of which `wanted` is true, besides those that
  // are already.
  template <typename Wanted>
  void save_where(const Wanted& wanted) {
    for (ValueId v : saved_.values())
      if (bool& save = decision(v).save; !save) save = !saved_.only_begins_layer(v) && wanted(v);
  }
  void replay(Replay replay) { plan_.replay = replay; }

  // With what it saves in the places to which the switches send it.
  DraftPlan finish() {
    for (ValueId v : saved_.values()) place(graph_, saved_, settings_, v, decision(v));
    return std::move(plan_);
  }

  static void place(const Graph& graph, const SavedActivations& saved, const CheckpointingSettings& settings,
                    ValueId v, Decision& d) {
    const Value& value = graph.value(v);
    const bool first_input = !saved.layer_inputs().empty() && v == saved.layer_inputs().front();
    if (!d.save || (value.layer < 0 && !first_input)) return;
    d.partition = settings.partition_activations && !value.placement.is_sharded_over(kTensorAxis);
    d.host = settings.cpu_checkpointing;
    d.disk = !settings.disk_checkpointing.path.empty();
  }

 private:
  Decision& decision(ValueId v) { return plan_.values[places_[v]]; }

  const CheckpointingSettings& settings_;
  const Graph& graph_;
  const SavedActivations& saved_;
  std::vector<std::size_t> places_;  // by value: among the saved activations
  DraftPlan plan_;
};

void save_all_values(Draft& plan) {
  plan.save_where([](ValueId) { return true; });
}

// By value: whether an op that is of no layer reads it.
std::vector<char> read_outside_layers(const Graph& graph) {
  std::vector<char> read(graph.values().size(), 0);
  for (const Op& op : graph.ops())
    for (ValueId v : op.inputs)
      if (op.layer < 0 && v != kNone) read[v] = 1;
  return read;
}

// What the ops after the last layer read is that layer's output.
void save_layer_inputs(Draft& plan) {
  plan.save_inputs();
  const std::vector<char> outside = read_outside_layers(plan.graph());
  plan.save_where([&](ValueId v) { return outside[v]; });
}

// Segments of k layers, the first one shorter where k does not divide: the inputs of each, and all of the
// last.
void save_segments(Draft& plan, int64_t k) {
  const int64_t last = std::max<int64_t>(0, plan.layers() - k);
  for (int64_t layer = last; layer > 0; layer -= k) plan.save_input(layer);
  plan.save_input(0);
  plan.save_where([&](ValueId v) { return plan.layer_of(v) >= last; });
}

void save_every_k(Draft& plan) {
  require(plan.settings().k > 0, "mode every_k needs a k");
  save_segments(plan, plan.settings().k);
}

void save_sqrt(Draft& plan) {
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(plan.layers())));
  while (root * root < plan.layers()) ++root;
  save_segments(plan, root);
}

// Of the op that made it, or of the one whose value it only hands to the ranks.
std::string_view group_of(const Graph& graph, const Value& value) {
  const Op& op = graph.op(value.producer);
  return op.def->passes_on ? group_of(graph, graph.value(op.inputs.at(0))) : op.def->group;
}

void save_outside_groups(Draft& plan) {
  const Graph& graph = plan.graph();
  const std::vector<std::string>& asked = plan.settings().recompute;
  const std::vector<std::string> groups = asked.empty() ? cheap_groups() : asked;
  const std::set<std::string_view> chosen(groups.begin(), groups.end());
  plan.save_inputs();
  plan.save_where([&](ValueId v) {
    const std::string_view group = group_of(graph, graph.value(v));
    const bool in_block = !group.empty() && chosen.contains(graph.op(graph.value(v).producer).block);
    return plan.saved().is_statistic(v) || !(chosen.contains(group) || in_block);
  });
}

// The first layer's input and all of the last layer.
void save_ends(Draft& plan) {
  plan.save_input(0);
  plan.save_input(plan.layers() - 1);
  plan.save_where([&](ValueId v) { return plan.layer_of(v) == plan.layers() - 1; });
}

// Besides, the inputs met when halving the way between the ends, again and again.
void save_halves(Draft& plan) {
  save_ends(plan);
  for (int64_t low = 0; plan.layers() - low > 1;) {
    low = (low + plan.layers()) / 2;
    plan.save_input(low);
  }
  plan.replay(Replay::kBisect);
}

void save_one_input(Draft& plan) {
  save_ends(plan);
  plan.replay(Replay::kNothing);
}

// The named layers save their inputs, all others everything.
void save_other_layers(Draft& plan) {
  plan.save_inputs();
  const std::vector<char> outside = read_outside_layers(plan.graph());
  const std::vector<std::string>& named = plan.settings().recompute_layers;
  plan.save_where([&](ValueId v) {
    return outside[v] ||
           std::find(named.begin(), named.end(), std::to_string(plan.layer_of(v))) == named.end();
  });
}

void save_by_policy(Draft& plan) {
  switch (plan.settings().budget_policy) {
    case BudgetPolicy::kFixed:
      return save_other_layers(plan);
    case BudgetPolicy::kFull:
      return save_layer_inputs(plan);
    default:
      return save_all_values(plan);
  }
}

using Policy = void (*)(Draft&);

Policy policy_of(CheckpointingMode mode) {
  switch (mode) {
    case CheckpointingMode::kNone:
      return save_all_values;
    case CheckpointingMode::kFull:
      return save_layer_inputs;
    case CheckpointingMode::kEveryK:
      return save_every_k;
    case CheckpointingMode::kSqrt:
      return save_sqrt;
    case CheckpointingMode::kSelective:
      return save_outside_groups;
    case CheckpointingMode::kRecursive:
      return save_halves;
    case CheckpointingMode::kConstantMemory:
      return save_one_input;
    case CheckpointingMode::kAuto:
      return save_by_policy;
    case CheckpointingMode::kDtr:
      return save_all_values;
  }
  throw Error(ExitCode::kInternal, "a checkpointing mode without a policy");
}

}  // namespace

std::vector<std::string> cheap_groups() { return {"norm", "activation"}; }

DraftPlan make_draft(const Graph& graph, const SavedActivations& saved,
                     const CheckpointingSettings& settings) {
  Draft plan(graph, saved, settings);
  const Policy decide = saved.layer_inputs().empty() ? save_all_values : policy_of(settings.mode);
  decide(plan);
  return plan.finish();
}

Plan make_plan(const Graph& graph, const SavedActivations& saved, const CheckpointingSettings& settings) {
  return plan_of(make_draft(graph, saved, settings), graph, saved);
}

DraftPlan make_binomial_draft(const Graph& graph, const SavedActivations& saved, int64_t held,
                              const CheckpointingSettings& settings) {
  Draft plan(graph, saved, settings);
  save_ends(plan);
  for (int64_t low = 0; held > 1 && plan.layers() - low > 1; --held) {
    low += binomial_split(plan.layers() - low, held);
    plan.save_input(low);
  }
  plan.replay(Replay::kBinomial);
  return plan.finish();
}

Plan placed(Plan plan, const Graph& graph, const SavedActivations& saved,
            const CheckpointingSettings& settings) {
  for (ValueId v : saved.values())
    Draft::place(graph, saved, settings, v, plan.values.at(graph.value(v).name));
  return plan;
}

}  // namespace recollect
