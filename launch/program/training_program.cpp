#include "launch/program/training_program.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <omp.h>

#include "checkpointing/choose.h"
#include "checkpointing/collective_pieces.h"
#include "checkpointing/device_file.h"
#include "checkpointing/planner/any_plan.h"
#include "checkpointing/planner/auto.h"
#include "checkpointing/planner/dtr.h"
#include "checkpointing/policies.h"
#include "checkpointing/residency_ops.h"
#include "checkpointing/simulator.h"
#include "checkpointing/verify.h"
#include "comm/collective_ops.h"
#include "comm/vocabulary_reduction.h"
#include "engine/core/byte_count.h"
#include "engine/core/duration.h"
#include "engine/graph/join_ops.h"
#include "engine/ops/cpu_level.h"
#include "engine/ops/ops.h"
#include "launch/program/attention_memory.h"
#include "launch/program/data_axis.h"
#include "launch/program/optimizer_settings.h"
#include "launch/program/over_budget.h"
#include "launch/program/pieces.h"
#include "launch/program/plan_remarks.h"
#include "launch/program/recorded.h"
#include "launch/program/state_offload.h"
#include "launch/program/state_remarks.h"
#include "launch/program/tf32_rates.h"
#include "launch/program/units.h"
#include "parallel/state_ops.h"

namespace recollect {

namespace {

std::string threads_text(const Config& config) {
  if (config.device.backend != BackendKind::kCpu) return {};
  const int threads = omp_get_max_threads();
  return fmt::format("{} thread{} of {}", threads, threads == 1 ? "" : "s",
                     cpu_level(config.device.isa).instruction_set());
}

std::unique_ptr<VocabularyReduction> vocabulary_of(const Mesh& mesh) {
  if (mesh.tensor_size() == 1) return nullptr;
  return std::make_unique<CommunicatorVocabularyReduction>(
      mesh.communicator(kTensorAxis, StreamId::kCompute));
}

// The kernels of the host's processor, which updates offloaded states.
std::shared_ptr<const KernelTable> kernels_of_host() {
  auto table = std::make_shared<KernelTable>();
  cpu_level().register_kernels(*table, nullptr);
  return table;
}

KernelTable all_kernels(const RegisterKernels& of_backend, const Mesh& mesh, VocabularyReduction* vocabulary,
                        DiskStore* disk, DiskStore* state_disk) {
  KernelTable table;
  of_backend(table, vocabulary);
  const CommunicatorLookup lookup = [&mesh](std::string_view axis, StreamId stream) -> Communicator& {
    return mesh.communicator(axis, stream);
  };
  register_comm_kernels(table, lookup);
  register_checkpointing_kernels(table, lookup, disk);
  register_verify_kernels(table, mesh.world().rank());
  register_state_kernels(table, state_disk, kernels_of_host());
  return table;
}

// Depends only on the configuration and the device's file. All ranks are assumed to share one node, as in
// estimates, so that every rank decides the same on any node.
DeviceModel described_device(const Config& config) {
  const Config::Parallelism& p = config.parallelism;
  DeviceModel device = share_of_rank(read_device_model(config.device.model), config.device.threads,
                                     p.tensor_parallel_size * std::max<int64_t>(1, p.data_parallel_size));
  if (config.device.tf32) device = with_tf32(std::move(device));
  return device;
}

DeviceModel rank_device(const Config& config) {
  return config.device.measured ? *config.device.measured : described_device(config);
}

// How to compile a program: with kernels to run it, or without them to predict.
struct Target {
  Program (*compile)(Graph, const KernelTable&, const Layout*);
  RegisterKernels kernels;
  TakenOver taken_over = {};
  const Plan* plan = nullptr;  // from the planner
};

Target to_predict_with(const Config& config, const TakenOver& taken_over = {}) {
  return {compile_without_kernels, kernels_of(config.device.backend, config.device.isa), taken_over, nullptr};
}

// All stages after the model's graph. If a switch has no effect, the program stays empty.
TrainingProgram complete(const Config& config, const Mesh& mesh, const ModelGraph& built,
                         const Target& target, bool least) {
  TrainingProgram training;
  training.device = rank_device(config);
  training.shown = shown_device_of(config);
  training.threads = threads_text(config);
  for (Remark& remark : remarks_on_unreached(config)) training.remarks.push_back(std::move(remark));
  training.registry = built.registry;
  training.model = built.model;
  training.vocabulary = vocabulary_of(mesh);

  Graph graph = built.graph;
  if (config.training.max_steps > 0) {
    const CheckpointingSettings& settings = config.activation_checkpointing;
    const Checkpointed* decided = target.taken_over.decided;
    const int64_t pieces = decided ? decided->pieces : built.pieces;
    mark_pieces(graph, pieces);
    training.checkpointed = checkpoint(graph, *training.registry, built.saved.value(), settings,
                                       {.tensor_size = mesh.tensor_size(),
                                        .halves = config.parallelism.halves(),
                                        .device = training.device,
                                        .least = least,
                                        .disk_through_host = config.device.backend == BackendKind::kCuda,
                                        .plan = target.plan,
                                        .decided = decided});
    if (training.checkpointed.refusal) return training;
    note_pieces(config, pieces, training);
    note_attention_memory(config, built, training);
    overlap_collectives(graph, *training.registry, pieces);
    if (config.device.backend == BackendKind::kCuda) join_ops(graph, *training.registry);
    add_second_half(config, built.samples, training, graph);
    for (const Remark& remark : training.checkpointed.remarks) training.remarks.push_back(remark);
    if (!settings.disk_checkpointing.path.empty())
      training.disk = target.taken_over.disk ? target.taken_over.disk
                                             : std::make_shared<DiskStore>(settings.disk_checkpointing.path);
    training.state_disk = state_store(config, target.taken_over);
    remark_on_frozen(training);
    reduce_over_data(graph, config, mesh, training);
    training.optimizer = append_optimizer(
        graph, *training.registry, training.model.parameters, training.model.loss, optimizer_settings(config),
        mesh.data_size(), mesh.tensor_size(), {.data = mesh.data_rank(), .tensor = mesh.tensor_rank()});
    remark_on_states(config, graph, training);
    remark_on_weight_codes(config, graph, training);
    remark_on_offload(config, graph, training);
    gather_over_data(graph, mesh, training, least);
  } else {
    for (Parameter& p : training.model.parameters) p.master = p.value;
  }
  training.program = target.compile(std::move(graph),
                                    all_kernels(target.kernels, mesh, training.vocabulary.get(),
                                                training.disk.get(), training.state_disk.get()),
                                    target.taken_over.larger);
  return training;
}

// If the fastest choices exceed the limit, takes those with the least memory.
TrainingProgram complete_within(uint64_t limit, const Config& config, const Mesh& mesh,
                                const ModelGraph& built, const Target& target) {
  TrainingProgram training = complete(config, mesh, built, target, false);
  const std::vector<Choice>& choices = training.checkpointed.choices;
  const auto more_than_least = [](const Choice& choice) {
    return choice.reason == "simulated" && choice.layers > 1;
  };
  if (training.checkpointed.refusal || training.program.predicted().arena_bytes() <= limit ||
      std::none_of(choices.begin(), choices.end(), more_than_least))
    return training;
  return complete(config, mesh, built, target, true);
}

// The bytes that a rank may use on its device.
uint64_t device_budget(const Config& config) {
  const int64_t limit = config.device.memory_limit, budget = config.activation_checkpointing.memory_budget;
  const int64_t least = limit == 0 || budget == 0 ? std::max(limit, budget) : std::min(limit, budget);
  return least == 0 ? PlanBudgets::kAny : static_cast<uint64_t>(least);
}

double predicted_seconds(const TrainingProgram& training, const Config& config) {
  return simulate(training.program.graph, training.program.schedule, training.device,
                  std::max<int64_t>(1, config.training.gradient_accumulation_steps))
      .step_seconds;
}

// A remark if full beats sqrt in memory and time, as it may with many or small layers.
std::vector<Remark> compare_with_full(const Config& config, const Mesh& mesh, const ModelGraph& built,
                                      const TrainingProgram& training) {
  Config full = config;
  full.activation_checkpointing.mode = CheckpointingMode::kFull;
  full.activation_checkpointing.number_checkpoints = 0;
  const TrainingProgram other =
      complete_within(device_budget(full), full, mesh, built, to_predict_with(full));
  if (other.checkpointed.refusal) return {};  // a switch would have no effect there
  const MemoryLedger &mine = training.program.predicted(), &its = other.program.predicted();
  const double seconds = predicted_seconds(training, config), its_seconds = predicted_seconds(other, config);
  if (its.arena_bytes() >= mine.arena_bytes() || its.host_bytes > mine.host_bytes ||
      its.disk_bytes > mine.disk_bytes || its_seconds >= seconds)
    return {};
  return {
      {"mode",
       fmt::format("full would be better in both: predicted {:.2f} MiB, and {:.3g} of the time of a step, "
                   "where sqrt takes {:.2f} MiB",
                   static_cast<double>(its.arena_bytes()) / kMiB.bytes, its_seconds / seconds,
                   static_cast<double>(mine.arena_bytes()) / kMiB.bytes)}};
}

bool has_budget(const CheckpointingSettings& c) {
  return c.mode == CheckpointingMode::kAuto || c.mode == CheckpointingMode::kDtr;
}

bool evicts(const Config& c) {
  return c.training.max_steps > 0 && c.activation_checkpointing.mode == CheckpointingMode::kDtr;
}

bool searches(const Config& config) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  return config.training.max_steps > 0 && c.mode == CheckpointingMode::kAuto &&
         (c.budget_policy == BudgetPolicy::kDynamic || c.budget_policy == BudgetPolicy::kStatic);
}

// Whether each sequence length has its own plan.
bool plans_each_length(const Config& config) {
  return evicts(config) ||
         (searches(config) && config.activation_checkpointing.budget_policy == BudgetPolicy::kDynamic);
}

PlanBudgets budgets_of(const Config& config, const TakenOver& taken_over) {
  if (taken_over.reserved || taken_over.larger) {
    const MemoryLedger& reserved = taken_over.reserved ? *taken_over.reserved : taken_over.larger->ledger;
    return {reserved.arena_bytes(), reserved.host_saved_bytes, reserved.disk_bytes};
  }
  const CheckpointingSettings& c = config.activation_checkpointing;
  const auto limit = [](int64_t bytes) {
    return bytes == 0 ? PlanBudgets::kAny : static_cast<uint64_t>(bytes);
  };
  return {device_budget(config), limit(c.host_memory_budget), limit(c.disk_checkpointing.limit)};
}

TrainingProgram as_decided(const Config&, const Mesh&, const ModelGraph&, const Target&);

// Compiles the programs of candidate plans and keeps the best one.
class Trials {
 public:
  Trials(const Config& config, const Mesh& mesh, const ModelGraph& built, const PlanBudgets& budgets,
         const TakenOver& taken_over)
      : config_(config),
        mesh_(mesh),
        built_(built),
        budgets_(budgets),
        disks_{.disk = taken_over.disk, .state_disk = taken_over.state_disk} {}

  // Null if the plan cannot be executed. The result is valid until the next call.
  const TrainingProgram* run(const Plan& plan, Moves moves = Moves::kChosen) {
    Target target = to_predict_with(config_, disks_);
    target.plan = &plan;
    last_ = complete(config_, mesh_, built_, target, true);
    if (last_.checkpointed.refusal) return nullptr;
    if (moves == Moves::kChosen && last_.program.predicted().arena_bytes() <= budgets_.device)
      move_as_it_pays(target);
    const MemoryLedger& memory = last_.program.predicted();
    if (memory.host_saved_bytes <= budgets_.host && memory.disk_bytes <= budgets_.disk &&
        (smallest_.arena_bytes() == 0 || memory.arena_bytes() < smallest_.arena_bytes()))
      smallest_ = memory;
    return &last_;
  }
  void keep_last(double seconds) { kept_ = std::move(last_), kept_seconds_ = seconds; }
  // The kept program, with the kernels of the target.
  TrainingProgram take_kept(const Target& target) {
    if (target.compile != compile_without_kernels)
      kept_.program = target.compile(std::move(kept_.program.graph),
                                     all_kernels(target.kernels, mesh_, kept_.vocabulary.get(),
                                                 kept_.disk.get(), kept_.state_disk.get()),
                                     nullptr);
    return std::move(kept_);
  }
  // The smallest memory among the programs within the budgets of host and disk.
  const MemoryLedger& smallest() const { return smallest_; }

 private:
  const Config& config_;
  const Mesh& mesh_;
  const ModelGraph& built_;
  const PlanBudgets budgets_;
  const TakenOver disks_;
  // Chooses open offload settings by simulation. Only if it may pay: this is slow.
  void move_as_it_pays(const Target& target) {
    const Simulation step = simulate(last_.program.graph, last_.program.schedule, last_.device, 1);
    const double waits = step.total_exposed_seconds(), least = step.step_seconds - waits;
    if (last_.checkpointed.choices.empty() || waits <= kLeastGain * least || least >= kept_seconds_) return;
    TrainingProgram chosen = complete(config_, mesh_, built_, target, false);
    if (chosen.program.predicted().arena_bytes() <= budgets_.device) last_ = std::move(chosen);
  }

  TrainingProgram last_, kept_;
  double kept_seconds_ = std::numeric_limits<double>::infinity();
  MemoryLedger smallest_;
};

TrainingProgram refused(const Error& refusal) {
  TrainingProgram none;
  none.checkpointed.refusal = refusal;
  return none;
}

std::vector<uint64_t> workspaces_of(const Config& config, const Mesh& mesh, const Graph& graph) {
  const std::unique_ptr<VocabularyReduction> vocabulary = vocabulary_of(mesh);
  return workspaces_of(graph, all_kernels(kernels_of(config.device.backend, config.device.isa), mesh,
                                          vocabulary.get(), nullptr, nullptr));
}

bool within(const PlanBudgets& budgets, const MemoryLedger& takes) {
  return takes.arena_bytes() <= budgets.device && takes.host_saved_bytes <= budgets.host &&
         takes.disk_bytes <= budgets.disk;
}

// Whether the decisions for the longest sequences, if any, are faster than the plan that was found.
bool longest_knows_better(const Config& config, const Mesh& mesh, const ModelGraph& built,
                          const TakenOver& taken_over, const PlanBudgets& budgets, const ChosenPlan& found) {
  if (!taken_over.decided) return false;
  if (!found.plan) return true;
  const Program alike = complete(config, mesh, built, to_predict_with(config, taken_over), false).program;
  const double seconds = simulate(alike.graph, alike.schedule, rank_device(config), 1).step_seconds;
  return within(budgets, alike.predicted()) && seconds < found.takes.seconds;
}

// Mode auto: takes a candidate plan whose program fits. If no better plan is found for a shorter sequence, it
// uses that of the longest.
TrainingProgram make_planned(const Config& config, const Mesh& mesh, const ModelGraph& built,
                             const Target& target) {
  const PlanBudgets budgets = budgets_of(config, target.taken_over);
  const CheckpointingSettings& settings = config.activation_checkpointing;
  const DeviceModel device = rank_device(config);
  std::vector<uint64_t> workspaces = workspaces_of(config, mesh, built.graph);
  Graph bounded = built.graph;
  leave_open_what_overlaps(bounded, workspaces, built.pieces);
  const Surroundings of{
      .graph = bounded,
      .saved = built.saved.value(),
      .settings = settings,
      .device = device,
      .residences = residences_of(settings, mesh.tensor_size(), config.parallelism.sequence_parallel),
      .storage = {.tensor_size = mesh.tensor_size(),
                  .keep_last = settings.keep_last,
                  .halves = config.parallelism.halves()}};
  Trials trials(config, mesh, built, budgets, target.taken_over);
  const TryPlan try_plan = [&](const Plan& plan, Moves moves) -> std::optional<PlanTrial> {
    const TrainingProgram* tried = trials.run(plan, moves);
    if (!tried) return {};
    const Program& program = tried->program;
    const MemoryLedger& memory = program.predicted();
    const Simulation step = simulate(program.graph, program.schedule, device, 1);
    return PlanTrial{.device = memory.arena_bytes(),
                     .host = memory.host_saved_bytes,
                     .disk = memory.disk_bytes,
                     .persistent = memory.persistent_bytes,
                     .seconds = step.step_seconds,
                     .beside = seconds_of_any_plan(program.graph, program.schedule, device, step)};
  };
  const ChosenPlan chosen =
      choose_plan(of, workspaces, budgets, try_plan, [&](double seconds) { trials.keep_last(seconds); });
  if (longest_knows_better(config, mesh, built, target.taken_over, budgets, chosen))
    return as_decided(config, mesh, built, target);
  if (!chosen.plan)
    return refused(no_plan_fits(budgets.device, chosen.smallest_device, config, trials.smallest()));
  TrainingProgram training = trials.take_kept(target);
  training.remarks.push_back(remark_on_choice(config, chosen, training.checkpointed.plan, budgets.device));
  return training;
}

// Mode dtr: recomputes the values that dynamic tensor rematerialization would evict.
TrainingProgram make_evicting(const Config& config, const Mesh& mesh, const ModelGraph& built,
                              const Target& target) {
  const CheckpointingSettings& settings = config.activation_checkpointing;
  const SavedActivations& saved = built.saved.value();
  const PlanBudgets budgets = budgets_of(config, target.taken_over);
  const uint64_t budget = budgets.device;
  Trials trials(config, mesh, built, {.device = budget}, target.taken_over);
  const auto run = [&](const Plan& plan) { return trials.run(placed(plan, built.graph, saved, settings)); };
  const TrainingProgram* none = run(make_plan(built.graph, saved, settings));
  const MemoryLedger all = none ? none->program.predicted() : MemoryLedger{};
  const uint64_t persistent = all.persistent_bytes;
  const auto exact_peak = [&](const Plan& plan) {
    const TrainingProgram* tried = run(plan);
    return tried ? tried->program.predicted().arena_bytes() - persistent : ~uint64_t{0};
  };
  const auto find = [&](uint64_t bytes) -> std::optional<DtrResult> {
    if (bytes <= persistent) return {};
    return make_dtr_plan(built.graph, saved, rank_device(config), bytes - persistent,
                         EvictionHeuristic::kDtrEq, exact_peak);
  };
  const std::optional<DtrResult> found = find(budget);
  const bool fits = found && within(budgets, run(found->plan)->program.predicted());
  if (target.taken_over.decided && !fits) return as_decided(config, mesh, built, target);
  if (!found)
    return refused(dtr_finds_none(budget, config, all, find,
                                  [&](const Plan& plan) { return run(plan)->program.predicted(); }));
  trials.keep_last(found->seconds);
  TrainingProgram training = trials.take_kept(target);
  const double seconds = static_cast<double>(config.parallelism.halves()) * found->seconds;
  training.remarks.push_back(
      {"mode dtr",
       fmt::format(
           "{} evictions were simulated; {} of a micro-batch are recomputation and gathers by {}, and {} of "
           "the budget are left",
           found->evictions, duration_text(seconds), rates_of(training.device.name),
           byte_count(budget - training.program.predicted().arena_bytes()))});
  return training;
}

TrainingProgram make_within_budget(const Config& config, const Mesh& mesh, const ModelGraph& built,
                                   const Target& target) {
  return evicts(config) ? make_evicting(config, mesh, built, target)
                        : make_planned(config, mesh, built, target);
}

// Uses the longest's decisions. Kernels with more workspace for fewer rows may then exceed the budget.
TrainingProgram as_decided(const Config& config, const Mesh& mesh, const ModelGraph& built,
                           const Target& target) {
  TrainingProgram training = complete(config, mesh, built, target, false);
  const uint64_t budget = device_budget(config), needs = training.program.predicted().arena_bytes();
  if (!has_budget(config.activation_checkpointing) || needs <= budget) return training;
  if (plans_each_length(config)) {
    Target undecided = target;
    undecided.taken_over = {.disk = target.taken_over.disk, .state_disk = target.taken_over.state_disk};
    Config as_reserved = config;  // the plan of the reservation, without later measurements
    as_reserved.device.measured.reset();
    return make_within_budget(as_reserved, mesh, built, undecided);
  }
  training.checkpointed.refusal = plan_exceeds(budget, config, training.program.predicted());
  return training;
}

TrainingProgram make(const Config& config, const Mesh& mesh, const ModelGraph& built, const Target& target) {
  const CheckpointingSettings& settings = config.activation_checkpointing;
  const bool plans = searches(config) || evicts(config);
  if (target.taken_over.decided && !plans_each_length(config)) return as_decided(config, mesh, built, target);
  TrainingProgram training = plans ? make_within_budget(config, mesh, built, target)
                                   : complete_within(device_budget(config), config, mesh, built, target);
  if (training.checkpointed.refusal || target.taken_over.decided) return training;
  if (const uint64_t budget = device_budget(config), needs = training.program.predicted().arena_bytes();
      has_budget(settings) && needs > budget) {
    training.checkpointed.refusal = plan_exceeds(budget, config, training.program.predicted());
    return training;
  }
  if (settings.mode == CheckpointingMode::kSqrt)
    for (Remark& remark : compare_with_full(config, mesh, built, training))
      training.remarks.push_back(std::move(remark));
  for (Remark& remark : recorded_elsewhere(config)) training.remarks.push_back(std::move(remark));
  return training;
}

}  // namespace

DeviceModel device_of(const Config& config) { return rank_device(config); }

DeviceModel shown_device_of(const Config& config) {
  return config.device.of_machine && !config.device.measured ? *config.device.of_machine
                                                             : rank_device(config);
}

ModelGraph build_training_graph(const Config& config, const Mesh& mesh, const BatchShape& shape,
                                const Checkpointed* decided) {
  if (config.training.max_steps == 0) return build_model(config, mesh, shape);
  BatchShape of_graph = shape;
  of_graph.samples /= config.parallelism.halves();
  ModelGraph forward = build_model(config, mesh, of_graph);
  ModelGraph built = differentiate_model(std::move(forward), config);
  decide_attention_memory(config, decided, built);
  if (config.parallelism.tensor_parallel_size == 1) return built;
  if (decided && !plans_each_length(config) && !config.parallelism.overlap_halves)
    built.pieces = decided->pieces;
  else
    decide_pieces(config, described_device(config), built);
  return built;
}

TrainingProgram make_training_program(const Config& config, const Mesh& mesh, const RegisterKernels& kernels,
                                      const BatchShape& shape, const TakenOver& taken_over) {
  TrainingProgram training = make(config, mesh, build_training_graph(config, mesh, shape, taken_over.decided),
                                  {compile, kernels, taken_over});
  if (training.checkpointed.refusal) throw *training.checkpointed.refusal;
  return training;
}

TrainingProgram plan_training_program(const Config& config, const Mesh& mesh, const ModelGraph& built,
                                      const TakenOver& taken_over) {
  return make(config, mesh, built, to_predict_with(config, taken_over));
}

MemoryLedger plan_memory(const Config& config, const Mesh& mesh, const ModelGraph& built,
                         const TakenOver& taken_over) {
  const TrainingProgram training = as_decided(config, mesh, built, to_predict_with(config, taken_over));
  if (training.checkpointed.refusal) throw *training.checkpointed.refusal;
  return training.program.predicted();
}

}  // namespace recollect
