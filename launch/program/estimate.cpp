#include "launch/program/estimate.h"
#include "launch/program/lengths.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include "checkpointing/device_file.h"
#include "checkpointing/op_time.h"
#include "checkpointing/recompute.h"
#include "comm/local.h"
#include "comm/message_communicator.h"
#include "engine/runtime/memory_profile.h"
#include "engine/runtime/program_size.h"
#include "launch/config/keys.h"
#include "launch/config/validate.h"
#include "launch/program/late_lengths.h"
#include "launch/program/limits.h"
#include "launch/program/snapshot_buffer.h"
#include "launch/program/task.h"
#include "launch/ranks/program_identity.h"
#include "launch/ranks/world.h"

namespace recollect {

namespace {

class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

StagingRule staging_rule(CommunicatorKind kind, int world_size) {
  switch (kind) {
    case CommunicatorKind::kLocal:
      return [world_size](int size) { return local_staging_bytes(world_size, size); };
    case CommunicatorKind::kMpi:
    case CommunicatorKind::kTcp:
      return message_staging_bytes;
    default:
      return [](int) { return std::size_t{0}; };
  }
}

bool on_device(const Config& config) { return config.device.backend == BackendKind::kCuda; }

std::vector<CommunicationBuffers> communication_buffers(const Config& config, const Mesh& mesh) {
  const int world_size = mesh.world().size();
  std::vector<CommunicationBuffers> buffers;
  for (const CommunicatorKind kind : expected_communicators(config, world_size)) {
    const Mesh like =
        Mesh::planned(mesh.world().rank(), mesh.axes(), staging_rule(kind, world_size), on_device(config));
    buffers.push_back({kind, like.staging_bytes()});
  }
  return buffers;
}

// `before` is the size of this process before it planned for one rank. Each rank of a process plans for
// itself.
ResidentMemory predicted_resident(const Config& config, const Mesh& mesh, const TrainingProgram& training,
                                  const MemoryLedger& memory,
                                  const std::vector<CommunicationBuffers>& buffers, uint64_t before) {
  const uint64_t after = resident_bytes();
  if (on_device(config) || after == 0) return {};
  const auto ranks = static_cast<uint64_t>(std::max<int64_t>(1, config.parallelism.ranks_per_process));
  const uint64_t at_start = after + (ranks - 1) * (after - std::min(before, after));
  return {.at_start = at_start,
          .predicted = at_start + unread_code_bytes() +
                       ranks * (resident_needs(config, memory) + buffers.front().bytes) +
                       snapshot_buffer_bytes(config, training.model, training.program.graph, mesh, 0,
                                             static_cast<int>(ranks))};
}

MemoryLedger::Row held_after_forward(const Program& program) {
  const std::vector<Op>& ops = program.graph.ops();
  const auto behind =
      std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.phase != Phase::kForward; });
  const MemoryProfile profile = memory_profile(program);
  MemoryLedger::Row held = profile.persistent[static_cast<int>(MemorySpace::kDevice)];
  for (const MemoryChange& change : profile.changes)
    if (change.space == MemorySpace::kDevice && change.tick < 2 * (behind - ops.begin()))
      held[static_cast<int>(change.category)] += static_cast<uint64_t>(change.bytes);
  return held;
}

double micro_batch_flops(const Graph& graph) {
  double flops = 0;
  for (const Op& op : graph.ops())
    if (op.phase != Phase::kOptimizer && op.def->cost) flops += op.def->cost(OpView{graph, op}).flops;
  return flops;
}

std::vector<Wait> list_waits(const Program& program, const Simulation& simulation) {
  std::vector<Wait> waits;
  for (std::size_t id = 0; id < simulation.exposed_seconds.size(); ++id) {
    if (simulation.exposed_seconds[id] <= 0) continue;
    Wait wait{.op = program.graph.op(static_cast<OpId>(id)).name,
              .waits_for = {},
              .seconds = simulation.exposed_seconds[id]};
    for (OpId before : program.schedule.waits[id])
      wait.waits_for += (wait.waits_for.empty() ? "" : ", ") + program.graph.op(before).name;
    waits.push_back(std::move(wait));
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& a, const Wait& b) { return a.seconds > b.seconds; });
  return waits;
}

std::string calibration_text(const Config& config, const Graph& graph, const DeviceModel& device, int ranks) {
  const bool of_machine = device.name == kRatesOfMachine;
  const DeviceModel model = of_machine ? device : read_device_model(config.device.model);
  std::string text = describe(model);
  if (device.threads > 0)
    text += fmt::format("; a rank has {} {}", device.threads, device.threads == 1 ? "thread" : "threads");
  if (model.cores > 0 && ranks > 1) text += fmt::format(", {} ranks share the cores", ranks);
  if (const auto kinds = kinds_without_rates(graph, device); !kinds.empty())
    text += fmt::format("; it knows no rates of {}, whose times are a guess{}", fmt::join(kinds, ", "),
                        of_machine ? "" : ": write it again with `recollect calibrate`");
  return text;
}

}  // namespace

void resolve_planned_world(Config& config) {
  const Config::Parallelism& p = config.parallelism;
  int64_t ranks = p.tensor_parallel_size * std::max<int64_t>(1, p.data_parallel_size);
  if (p.data_parallel_size == 0) ranks = std::max(ranks, p.ranks_per_process);
  resolve_world(config, static_cast<int>(ranks));
  config.device.spare_cores = has_spare_cores_for(config, static_cast<int>(ranks));
}

PlannedRank::PlannedRank(const Config& config, int data_rank, int tensor_rank) {
  const auto data_size = static_cast<int>(config.parallelism.data_parallel_size);
  const auto tensor_size = static_cast<int>(config.parallelism.tensor_parallel_size);
  const int world_size = data_size * tensor_size;
  threads_ = threads_per_rank(config, world_size);
  const StagingRule staging = staging_rule(expected_communicators(config, world_size).front(), world_size);
  mesh_ = std::make_unique<Mesh>(
      Mesh::planned(data_rank * tensor_size + tensor_rank, mesh_axes(config), staging, on_device(config)));
  built_ = build_training_graph(config, *mesh_, batch_shape(config));
}

TrainingProgram PlannedRank::plan(const Config& config) const {
  const ThreadCount threads(threads_);
  return plan_training_program(config, *mesh_, built_);
}

TrainingProgram PlannedRank::require_plan(const Config& config) const {
  TrainingProgram training = plan(config);
  if (training.checkpointed.refusal) throw *training.checkpointed.refusal;
  return training;
}

TrainingProgram PlannedRank::plan_shorter(const Config& config, const BatchShape& shape,
                                          const TrainingProgram& longest,
                                          const MemoryLedger* reserved) const {
  const ThreadCount threads(threads_);
  return plan_training_program(config, *mesh_,
                               build_training_graph(config, *mesh_, shape, &longest.checkpointed),
                               {.disk = longest.disk,
                                .state_disk = longest.state_disk,
                                .decided = &longest.checkpointed,
                                .larger = &longest.program.layout,
                                .reserved = reserved});
}

MemoryLedger PlannedRank::reserve(const Config& config, const TrainingProgram& longest) const {
  const ThreadCount threads(threads_);
  return plan_lengths(config, *mesh_, all_batch_shapes(config), longest, longest.program.layout);
}

PlannedTraining plan_training(const Config& config, int data_rank, int tensor_rank) {
  PlannedRank rank(config, data_rank, tensor_rank);
  TrainingProgram training = rank.require_plan(config);
  return {std::move(rank), std::move(training)};
}

namespace {

// `before` is the size of this process in bytes before it planned for one rank.
Estimate estimate_of(const Config& config, const Mesh& mesh, const TrainingProgram& training,
                     const MemoryLedger& reserved, uint64_t before) {
  const Program& program = training.program;
  const DeviceModel& device = training.shown;
  const int world_size = mesh.world().size();
  Estimate result{.ranks = world_size,
                  .threads = training.threads,
                  .mathematics = training.threads.empty() ? "" : mathematics_library(),
                  .device = device,
                  .calibration = calibration_text(config, program.graph, device, world_size),
                  .communication_buffers = communication_buffers(config, mesh),
                  .save_buffer = save_buffer_bytes(config),
                  .snapshot_buffer = most_snapshot_buffer_bytes(config, training.model, program.graph, mesh),
                  .resident = {},
                  .parameters = parameter_bytes(training.model, program.graph, mesh.tensor_size()),
                  .memory = reserved,
                  .after_forward = held_after_forward(program),
                  .residency = training.checkpointed.residency,
                  .gathered = training.checkpointed.gathered,
                  .choices = training.checkpointed.choices,
                  .remarks = training.remarks,
                  .layers = choices_by_layer(config, training.checkpointed.plan, program.graph),
                  .flops = micro_batch_flops(program.graph),
                  .recomputed_flops = recomputed_flops(program.graph),
                  .simulation = simulate(program.graph, program.schedule, device,
                                         config.training.gradient_accumulation_steps),
                  .waits = {}};
  result.resident =
      predicted_resident(config, mesh, training, result.memory, result.communication_buffers, before);
  result.waits = list_waits(program, result.simulation);
  return result;
}

std::vector<LengthEstimate> estimate_lengths(const Config& config, const PlannedRank& rank,
                                             const TrainingProgram& longest, const MemoryLedger& reserved) {
  const auto most = static_cast<std::size_t>(std::clamp<int64_t>(most_lengths(config) / 4, 2, 12));
  std::vector<BatchShape> shapes = all_batch_shapes(config);
  std::reverse(shapes.begin(), shapes.end());
  std::vector<LengthEstimate> lengths;
  const auto add = [&](const TrainingProgram& training, int64_t length) {
    const Program& program = training.program;
    lengths.push_back({length, program.predicted().arena_bytes(),
                       simulate(program.graph, program.schedule, training.shown,
                                config.training.gradient_accumulation_steps)
                           .step_seconds});
  };
  const std::size_t count = std::min(most, shapes.size());
  for (std::size_t i = 1; i < count; ++i) {
    const BatchShape& shape = shapes[(i * shapes.size() - 1) / count];
    add(rank.plan_shorter(config, shape, longest, &reserved), shape.sequence_length);
  }
  if (count > 1) add(longest, shapes.back().sequence_length);
  return lengths;
}

// Adds the memory of the programs of other lengths. With training.compile ahead they exist when memory is
// reserved.
void count_programs(const Config& config, const Program& longest, ResidentMemory& resident) {
  if (resident.predicted == 0) return;
  const auto ranks = static_cast<uint64_t>(config.parallelism.ranks_per_process);
  const std::size_t lengths = all_batch_shapes(config).size();
  const bool ahead = config.training.compile == CompileTime::kAhead;
  const uint64_t there = ahead ? ranks * (lengths - 1) * host_bytes_of(longest) : 0;
  resident.at_start += there;
  resident.predicted += there + ranks * program_needs(config, longest, lengths);
}

bool knows_disk(const TrainingProgram& training) {
  const MemoryLedger& predicted = training.program.predicted();
  return predicted.disk_bytes + predicted.disk_state_bytes == 0 ||
         (training.device.disk_write_bandwidth > 0 && training.device.disk_read_bandwidth > 0);
}

}  // namespace

Estimate estimate(const Config& config, Ranks ranks) {
  const uint64_t before = resident_bytes();
  Estimate result;
  MemoryLedger longest;
  int last_data = 0, last_tensor = 0;
  {  // one program at a time, because programs of many layers are large
    const PlannedRank first(config, 0, 0);
    const TrainingProgram training = first.require_plan(config);
    if (!knows_disk(training))
      throw Error(ExitCode::kConfiguration,
                  "device model " + training.device.name + " does not know how fast the disk is",
                  "measure it: `recollect calibrate --disk FOLDER --out FILE`");
    const MemoryLedger reserved = first.reserve(config, training);
    result = estimate_of(config, first.mesh(), training, reserved, before);
    count_programs(config, training.program, result.resident);
    result.lengths = estimate_lengths(config, first, training, reserved);
    longest = training.program.predicted();
    last_data = first.mesh().data_size() - 1, last_tensor = first.mesh().tensor_size() - 1;
  }
  if (ranks == Ranks::kFirstAndLast && result.ranks > 1) {
    const PlannedRank last(config, last_data, last_tensor);
    require(last.require_plan(config).program.predicted() == longest &&
                communication_buffers(config, last.mesh()) == result.communication_buffers,
            "the first and the last rank need the same memory");
  }
  return result;
}

Config without_checkpointing(const Config& config) {
  Config none = config;
  none.activation_checkpointing = {};
  return none;
}

bool checkpoints(const Config& config) {
  const Config defaults;
  const KeyTable table;
  return std::any_of(table.keys().begin(), table.keys().end(), [&](const ConfigKey& key) {
    return key.section.starts_with("activation_checkpointing") && key.print(config) != key.print(defaults);
  });
}

std::vector<Variant> compare_variants(const Config& config) {
  const uint64_t before = resident_bytes();
  const PlannedRank rank(config, 0, 0);
  std::vector<Variant> variants;
  for (std::string_view mode : kNamedModes)
    for (int switches = 0; switches < 8; ++switches) {
      const bool partition = switches & 1, host = switches & 2, disk = switches & 4;
      if (disk && config.activation_checkpointing.disk_checkpointing.path.empty()) continue;
      Config changed = config;
      CheckpointingSettings& c = changed.activation_checkpointing;
      const auto* spelled =
          std::find(kSpellings<CheckpointingMode>.begin(), kSpellings<CheckpointingMode>.end(), mode);
      c.mode = static_cast<CheckpointingMode>(spelled - kSpellings<CheckpointingMode>.begin());
      c.k = c.mode != CheckpointingMode::kEveryK ? 0 : c.k > 0 ? c.k : 2;
      if (c.mode != CheckpointingMode::kSelective) c.recompute.clear();
      c.partition_activations = partition;
      c.cpu_checkpointing = host;
      if (!disk) c.disk_checkpointing = {};
      c.memory_budget = c.host_memory_budget = 0;
      c.budget_policy = BudgetPolicy::kDynamic;
      c.replan_after = 0;
      c.recompute_layers.clear();
      c.plan.clear();  // the table's rows decide instead
      c.number_checkpoints = 0;
      if (switches == 0) c.keep_last = c.prefetch = -1;
      Variant variant{
          .mode = std::string(mode), .partition = partition, .host = host, .disk = disk, .estimate = {}};
      if (c.k > 0) variant.mode += " " + std::to_string(c.k);
      if (!validate(changed).empty()) continue;
      const TrainingProgram training = rank.plan(changed);
      if (training.checkpointed.refusal || !knows_disk(training)) continue;
      variant.estimate = estimate_of(changed, rank.mesh(), training, training.program.predicted(), before);
      variant.fits = fits(config, variant.estimate.memory);
      variants.push_back(std::move(variant));
    }
  std::stable_sort(variants.begin(), variants.end(), [](const Variant& a, const Variant& b) {
    const double ta = a.estimate.simulation.step_seconds, tb = b.estimate.simulation.step_seconds;
    if (a.fits != b.fits) return a.fits;
    if (ta != tb) return ta < tb;
    return a.estimate.memory.arena_bytes() < b.estimate.memory.arena_bytes();
  });
  return variants;
}

}  // namespace recollect
