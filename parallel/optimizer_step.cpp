#include "parallel/optimizer_step.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/graph/op_builder.h"
#include "parallel/host_updates.h"
#include "parallel/mesh.h"
#include "parallel/model_files.h"
#include "parallel/offloaded_states.h"
#include "parallel/optimizers/rules.h"

namespace recollect {

namespace {

// Tensor ranks that hold the same parts of those parameters that more than one holds; 1 where there are none.
int repeats_of(const std::vector<Parameter>& parameters) {
  int repeats = 1;
  for (const Parameter& p : parameters)
    if (p.gradient != kNone) repeats = std::max(repeats, p.repeats);
  return repeats;
}

bool is_divided(const std::vector<Parameter>& parameters) {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Parameter& p) { return p.part_rows > 0; });
}

// Of parameters.
struct UpdateBucket {
  std::string name;
  std::vector<Parameter*> parameters;
};

// Parameters that are gathered together follow each other; where nothing is gathered they stay in their order.
std::vector<UpdateBucket> update_order(const Graph& graph, std::vector<Parameter>& parameters) {
  std::map<GroupId, UpdateBucket> buckets;
  const bool divided = is_divided(parameters);
  for (Parameter& p : parameters) {
    if (p.gradient == kNone) continue;  // frozen
    const GroupId group = divided ? graph.value(p.gradient).group : kNone;
    UpdateBucket& bucket = buckets[group];
    if (divided && bucket.name.empty()) bucket.name = graph.group(group).name;
    bucket.parameters.push_back(&p);
  }
  std::vector<UpdateBucket> order;
  for (auto& [group, bucket] : buckets) order.push_back(std::move(bucket));
  return order;
}

// By which one knows that the compute stream has come to the end; kNone where there is nothing yet.
ValueId last_made(const Graph& graph) {
  for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op)
    if (op->stream == StreamId::kCompute)
      for (const ValueId v : op->outputs)
        if (v != kNone) return v;
  return kNone;
}

// What this rank updates of a parameter.
Parameter held_part(const Parameter& p) {
  Parameter held = p;
  if (p.part_rows > 0) held.value = p.value_part, held.gradient = p.gradient_part;
  return held;
}

bool has_master(const Graph& graph, const Parameter& p) {
  return graph.value(p.value).dtype != graph.value(p.gradient).dtype;
}

// By parameter, in the order of updates, where its states are kept.
std::map<const Parameter*, MemorySpace> places_of_states(const Graph& graph,
                                                         const std::vector<UpdateBucket>& order,
                                                         const OptimizerRule& rule,
                                                         const StateOffload& offload) {
  std::vector<const Parameter*> all;
  std::vector<uint64_t> bytes;
  std::vector<char> may_leave;
  for (const UpdateBucket& bucket : order)
    for (const Parameter* p : bucket.parameters) {
      const Parameter held = held_part(*p);
      const Value& gradient = graph.value(held.gradient);
      uint64_t sum = has_master(graph, held) ? gradient.bytes() : 0;
      for (const OptimizerState& state : rule.states(held, gradient))
        sum += static_cast<uint64_t>(state.shape.elements()) * size_of(state.dtype);
      all.push_back(p);
      bytes.push_back(sum);
      may_leave.push_back(!p->vector && sum > 0 && rule.is_elementwise());
    }
  std::map<const Parameter*, MemorySpace> places;
  const std::vector<char> leaves = offload.to == OffloadTo::kNone
                                       ? std::vector<char>(all.size(), 0)
                                       : choose_offloaded(bytes, may_leave, offload.ratio);
  for (std::size_t i = 0; i < all.size(); ++i)
    places[all[i]] = leaves[i] ? space_of(offload.to) : MemorySpace::kDevice;
  if (offload.to != OffloadTo::kNone && std::count(leaves.begin(), leaves.end(), char{1}) == 0)
    throw Error(ExitCode::kConfiguration,
                "optimizer.offload has no effect: no matrix is trained whose states could leave",
                "leave it out");
  return places;
}

bool updates_on_host(const OptimizerSettings& settings) {
  if (settings.offload.update == OffloadUpdate::kDevice) return false;
  const OptimizerEntry& entry = optimizer_entry(settings.name);
  require(settings.offload.to == OffloadTo::kHost && !entry.of_whole_rows && !entry.of_whole_matrices &&
              !settings.bf16_masters,
          "the host updates states in its memory, by rules that treat each element by itself");
  return true;
}

// Where the rows that a rank updates lie in the whole of parameter number `place`, for chances that no layout changes.
Attributes rounding_of(const Parameter& p, uint64_t place, const RankPlace& rank, int tensor_size) {
  const int64_t all = p.local_rows(tensor_size), first = p.part_rows * rank.data,
                end = p.part_rows > 0 ? std::min(all, first + p.part_rows) : all;
  std::string runs = first < end ? "" : "0 0";  // rows that nothing uses are zero
  for (int64_t row = first, together = 0; row < end; row += together) {
    const Parameter::RowPlace at = p.place_of_row(row, rank.tensor, tensor_size);
    together = at.together;
    runs += std::to_string(row - first) + " " + std::to_string(p.drawn_behind + at.row) + " ";
  }
  return {{"rounded_as", static_cast<int64_t>(place)},
          {"rounded_columns", p.columns},
          {"rounded_first_column", p.whole_column(0, rank.tensor, tensor_size)},
          {"rounded_runs", std::move(runs)}};
}

// What this rank updates of a parameter.
struct Held {
  Parameter part = {};
  MemorySpace space = MemorySpace::kDevice;  // of its master and states
  bool on_host = false;                      // they are updated in the host's memory
  Attributes rounding = {};                  // of one that is its own master, in bf16
};

class Builder {
 public:
  Builder(Graph& graph, const OpRegistry& registry)
      : graph_(graph),
        ops_(graph, registry, {.phase = Phase::kOptimizer, .accumulate = Accumulate::kAlways}) {}

  OpBuilder& ops() { return ops_; }

  // Numbers that outlive the step, so that the host can read and write them.
  ValueId scalars(const std::string& name, Category category, int64_t size) {
    return graph_.add_value({.name = name,
                             .shape = {size},
                             .dtype = DType::kF64,
                             .category = category,
                             .persistent = true,
                             .accumulator = true});
  }

  ValueId scalar(const std::string& name, Category category) { return scalars(name, category, 1); }

  // "exp_avg/h.0.ln_1.weight"
  ValueId state(const Parameter& p, const OptimizerState& state, MemorySpace space) {
    return graph_.add_value({.name = state.name + "/" + p.name,
                             .shape = state.shape,
                             .dtype = state.dtype,
                             .category = Category::kOptimizer,
                             .placement = state.placement,
                             .space = space,
                             .persistent = true,
                             .accumulator = true,
                             .layer = graph_.value(p.gradient).layer});
  }

  // Of this rank's parts, where gradients are divided.
  ValueId squared_norm(const std::string& name, const std::vector<Parameter>& parameters,
                       const Placement& placement, int repeats = 1) {
    std::vector<ValueId> gradients;
    for (const Parameter& p : parameters)
      if (p.gradient != kNone && graph_.value(p.gradient).placement == placement && p.repeats == repeats)
        gradients.push_back(p.gradient_part != kNone ? p.gradient_part : p.gradient);
    return ops_.append(name, "squared_norm", {}, std::move(gradients)).outputs[0];
  }

  ValueId all_reduce(const std::string& name, ValueId value, std::string_view axis, int size) {
    if (size == 1) return value;
    const Attributes attributes{{"axis", std::string(axis)}, {"size", int64_t{size}}};
    return ops_.append(name, "all_reduce", attributes, {value}).outputs[0];
  }

  // Over all data ranks.
  ValueId total_loss(ValueId loss, int data_size) {
    if (data_size == 1) return loss;
    const ValueId total = scalar("loss/total", Category::kWorkspace);
    ops_.append("loss/total", "all_reduce", {{"axis", std::string(kDataAxis)}, {"size", int64_t{data_size}}},
                {loss}, {total});
    return total;
  }

  // The factor of gradients, by their norm over all ranks.
  ValueId clip(const std::vector<Parameter>& parameters, const OptimizerSettings& settings, int data_size,
               int tensor_size, OptimizerHandles& handles) {
    const auto over_data = [&](const std::string& name, ValueId sum) {
      return all_reduce(name + "/data", sum, kDataAxis, is_divided(parameters) ? data_size : 1);
    };
    const auto of_tensor_ranks = [&](const std::string& name, int repeats) {
      const ValueId own = squared_norm(name, parameters, Placement::sharded_over(kTensorAxis), repeats);
      return over_data(name, all_reduce(name + "/sum", own, kTensorAxis, tensor_size));
    };
    const ValueId sharded = of_tensor_ranks("norm/sharded", 1);
    const ValueId replicated =
        over_data("norm/replicated", squared_norm("norm/replicated", parameters, Placement()));
    Attributes clipping{{"max_norm", settings.max_grad_norm}};
    ValueId repeated = kNone;  // the sum has each once for every rank that holds it
    if (const int repeats = repeats_of(parameters); repeats > 1) {
      repeated = of_tensor_ranks("norm/repeated", repeats);
      clipping.set("repeats", int64_t{repeats});
    }
    handles.norm = scalar("norm", Category::kWorkspace);
    if (settings.loss_scaled) handles.loss_scale = scalar("input/loss_scale", Category::kInput);
    const Op& op =
        ops_.append("norm/clip", "clip_factor", std::move(clipping),
                    {sharded, replicated, handles.loss_scale, repeated, handles.total_loss}, {handles.norm});
    return op.outputs[1];
  }

  // Master and states of a parameter. What has no number for each element stays on the device; what the host updates has a
  // master there.
  void declare(Parameter& p, const OptimizerRule& rule, Held& held) {
    Parameter& part = held.part = held_part(p);
    const Value gradient = graph_.value(part.gradient);
    const bool cast = held.rounding.items().empty() && (held.on_host || has_master(graph_, p));
    part.master = cast ? state(p, state_like("master", gradient), held.space) : part.value;
    graph_.value(p.value).accumulator = true;
    for (const OptimizerState& wanted : rule.states(part, gradient)) {
      const bool whole = wanted.shape.elements() == gradient.shape.elements();
      part.states.push_back(
          {wanted.name, state(p, wanted, whole ? held.space : MemorySpace::kDevice), wanted.of});
    }
    p.master = cast ? part.master : p.value;
    p.states = part.states;
  }

  // The ops of an update, where on the host behind `after`.
  void update(const OptimizerRule& rule, const ParameterUpdate& update, std::vector<ValueId> after = {}) {
    ops_.common().stream = update.on_host ? StreamId::kHost : StreamId::kCompute;
    ops_.common().after = std::move(after);
    rule.emit(ops_, update);
    ops_.common().stream = StreamId::kCompute;
    ops_.common().after.clear();
  }

  // `after`: what updates of chunks make of the parameters.
  void gather(const std::string& name, const std::vector<Parameter*>& parameters, int data_size,
              std::vector<ValueId> after) {
    std::vector<ValueId> parts, values;
    for (const Parameter* p : parameters) {
      parts.push_back(p->value_part);
      values.push_back(p->value);
    }
    ops_.common().stream = StreamId::kCommunication;
    ops_.common().after = std::move(after);
    ops_.append(name, "all_gather_accumulators",
                {{"axis", std::string(kDataAxis)}, {"size", int64_t{data_size}}}, std::move(parts),
                std::move(values));
    ops_.common().stream = StreamId::kCompute;
    ops_.common().after.clear();
  }

 private:
  Graph& graph_;
  OpBuilder ops_;
};

}  // namespace

OptimizerHandles append_optimizer(Graph& graph, const OpRegistry& registry,
                                  std::vector<Parameter>& parameters, ValueId loss,
                                  const OptimizerSettings& settings, int data_size, int tensor_size,
                                  const RankPlace& rank) {
  const ValueId before = last_made(graph);
  Builder b(graph, registry);
  OptimizerHandles handles;
  handles.rule = make_optimizer_rule(settings);
  std::vector<double> numbers;
  handles.rule->scalars(0, 1, numbers);
  handles.schedule = b.scalars("input/schedule", Category::kInput, static_cast<int64_t>(numbers.size()));
  handles.total_loss = b.total_loss(loss, data_size);
  const ValueId factor = b.clip(parameters, settings, data_size, tensor_size, handles);
  for (Parameter& p : parameters) p.master = p.value;  // of what is frozen

  const std::vector<UpdateBucket> order = update_order(graph, parameters);
  const auto places = places_of_states(graph, order, *handles.rule, settings.offload);
  const std::vector<uint64_t> drawn = drawn_places(parameters);
  const bool on_host = updates_on_host(settings);
  OffloadedStates offloaded(graph, registry, settings.offload, optimizer_entry(settings.name).of_whole_rows,
                            before);
  HostUpdates host(graph, registry, settings.offload.chunk_elements, handles.schedule, factor);
  std::map<const Parameter*, Held> held;
  for (const UpdateBucket& bucket : order)
    for (Parameter* p : bucket.parameters) {
      Held& mine = held[p];
      if (settings.bf16_masters && graph.value(p->value).dtype == DType::kBF16)
        mine.rounding =
            rounding_of(*p, drawn[static_cast<std::size_t>(p - parameters.data())], rank, tensor_size);
      mine.space = places.at(p);
      mine.on_host = on_host && mine.space != MemorySpace::kDevice;
      b.declare(*p, *handles.rule, mine);
      if (mine.on_host)
        host.add(mine.part);
      else if (mine.space != MemorySpace::kDevice)
        offloaded.add(mine.part);
    }
  const UpdatePlace here{.schedule = handles.schedule, .factor = factor};
  const auto update = [&](const Parameter& piece, const UpdatePlace& at, const Attributes& rounding = {}) {
    const double decay = piece.decayed() || settings.decay_all ? settings.weight_decay : 0.0;
    b.update(*handles.rule,
             {.parameter = piece,
              .schedule = at.schedule,
              .factor = at.factor,
              .weight_decay = piece.weight_decay.value_or(decay),
              .tensor_size = tensor_size,
              .dtype = graph.value(piece.gradient).dtype,
              .rounding = rounding,
              .on_host = at.on_host},
             at.after);
  };
  const auto update_here = [&](const Parameter& chunk) { update(chunk, here); };
  for (const UpdateBucket& bucket : order) {
    std::vector<ValueId> chunks;
    for (const Parameter* p : bucket.parameters)
      if (const Held& mine = held.at(p); mine.space == MemorySpace::kDevice)
        update(mine.part, here, mine.rounding);
      else
        chunks.push_back(mine.on_host ? host.update_next(update) : offloaded.update_next(update_here));
    if (is_divided(parameters) && bucket.parameters.front()->whole == kNone)
      b.gather("gather/" + bucket.name, bucket.parameters, data_size, std::move(chunks));
  }
  host.finish();
  handles.offload = on_host ? host.report() : offloaded.report();
  return handles;
}

}  // namespace recollect
