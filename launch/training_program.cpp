#include "launch/training_program.h"

#include <algorithm>

#include <fmt/format.h>
#include <omp.h>

#include "checkpointing/choose.h"
#include "checkpointing/policies.h"
#include "checkpointing/residency_ops.h"
#include "checkpointing/simulator.h"
#include "checkpointing/verify.h"
#include "comm/collective_ops.h"
#include "comm/vocabulary_reduction.h"
#include "engine/graph/differentiate.h"
#include "engine/ops/ops.h"
#include "launch/device_file.h"
#include "launch/plan_file.h"
#include "launch/recorded.h"
#include "parallel/gradient_reduction.h"

namespace recollect {

namespace {

Gpt2Shape model_shape(const Config::Model& m) {
  return {.vocabulary = m.vocab_size,
          .positions = m.n_positions,
          .hidden = m.n_embd,
          .layers = m.n_layer,
          .heads = m.n_head,
          .inner = m.n_inner,
          .gelu = m.activation_function == ActivationFunction::kGelu ? "erf" : "tanh",
          .residual_dropout = m.resid_pdrop,
          .embedding_dropout = m.embd_pdrop,
          .attention_dropout = m.attn_pdrop,
          .norm_epsilon = m.layer_norm_epsilon,
          .init_std = m.initializer_range};
}

// Every chunk of logits reads and writes the head's whole gradient, which a GPU notices: larger ones there.
BatchShape batch_shape(const Config& config) {
  const bool gpu = config.device.backend == BackendKind::kCuda;
  return {.samples = config.training.micro_batch_size,
          .sequence_length = config.data.sequence_length,
          .most_logits = gpu ? 4096 : 1024};
}

OptimizerSettings optimizer_settings(const Config& config) {
  const Config::Optimizer& o = config.optimizer;
  return {.name = std::string(name_of(o.name)),
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .momentum = o.momentum,
          .weight_decay = o.weight_decay,
          .decay_all = o.decay_all,
          .max_grad_norm = o.max_grad_norm,
          .loss_scaled = config.training.scales_loss()};
}

PolicySettings policy_settings(const Config::ActivationCheckpointing& c) {
  return {.mode = std::string(name_of(c.mode)),
          .k = c.k,
          .recompute = c.recompute,
          .partition = c.partition_activations,
          .host = c.cpu_checkpointing,
          .disk = !c.disk_checkpointing.path.empty()};
}

// What is left open is chosen, or, where `least`, as little as can be.
void decide_moves(const Graph& graph, const SavedActivations& saved, const Config& config, const Mesh& mesh,
                  bool least, TrainingProgram& made) {
  const Config::ActivationCheckpointing& c = config.activation_checkpointing;
  const ResidencySettings asked{.tensor_size = mesh.tensor_size(),
                                .keep_last = c.keep_last,
                                .pooled = !c.contiguous_checkpointing,
                                .prefetch = c.prefetch,
                                .bf16 = c.storage_dtype == StorageDType::kBF16};
  made.moves = least ? least_residency(asked)
                     : choose_residency(graph, *made.registry, saved, made.plan, asked, made.device);
}

// What a report says of these numbers.
std::vector<Choice> list_choices(const Config::ActivationCheckpointing& c, const TrainingProgram& made,
                                 bool least) {
  if (made.residency.returned.empty()) return {};
  const char* chosen = least ? "device.memory_limit" : "simulated";
  return {{"keep_last", made.moves.keep_last, c.keep_last < 0 ? chosen : "given"},
          {"prefetch", made.moves.prefetch, c.prefetch < 0 ? chosen : "given"}};
}

// The disk is written from the host's memory and read into it.
void send_through_host(Plan& plan) {
  for (auto& [value, decision] : plan.values) decision.host |= decision.disk;
}

// Recompute, then move, then check. A switch that turns out to do nothing is an error.
void checkpoint(Graph& graph, const Config& config, const Mesh& mesh, bool least, TrainingProgram& made) {
  const Config::ActivationCheckpointing& c = config.activation_checkpointing;
  int64_t divided_already = 0;
  const SavedActivations saved(graph);
  made.plan = c.plan.empty() ? make_plan(graph, saved, policy_settings(c))
                             : read_plan(c.plan, graph, saved, mesh.tensor_size(), &divided_already);
  std::vector<Remark> remarks =
      check_plan(config, policy_settings(c), graph, saved, made.plan, divided_already);
  std::move(remarks.begin(), remarks.end(), std::back_inserter(made.remarks));
  if (config.device.backend == BackendKind::kCuda) send_through_host(made.plan);
  std::vector<Reproduction> reproductions = recompute(graph, saved, made.plan);
  decide_moves(graph, saved, config, mesh, least, made);
  made.residency = place_saved_activations(graph, *made.registry, saved, made.plan, made.moves);
  made.gathered = gathered_again(graph);
  made.choices = list_choices(c, made, least);
  const auto inert = [&](const std::string& key) {
    const std::string plan = c.plan.empty() ? "in mode " + std::string(name_of(c.mode)) : "by " + c.plan;
    return Error(ExitCode::kConfiguration,
                 "activation_checkpointing." + key + " has no effect: " + plan +
                     " every value that it could move is needed at once",
                 "use more layers, another mode, or a smaller keep_last");
  };
  const auto planned = [&](bool Decision::*switched) {
    return std::any_of(made.plan.values.begin(), made.plan.values.end(),
                       [&](const auto& item) { return item.second.*switched; });
  };
  const ResidencyReport& moved = made.residency;
  const bool disk = !c.disk_checkpointing.path.empty();
  if (planned(&Decision::disk) && !disk)
    throw Error(ExitCode::kConfiguration,
                "activation_checkpointing.plan sends values to the disk, and nobody says where",
                "give activation_checkpointing.disk_checkpointing.path");
  if (c.partition_activations && moved.partitioned_values == 0) throw inert("partition_activations");
  if (c.cpu_checkpointing && moved.host_values == 0) throw inert("cpu_checkpointing");
  if (disk && moved.disk_values == 0) throw inert("disk_checkpointing");
  if (c.storage_dtype != StorageDType::kSame && moved.packed_values == 0) throw inert("storage_dtype");
  if (!c.plan.empty() && planned(&Decision::partition) && moved.partitioned_values == 0) throw inert("plan");
  if (!c.plan.empty() && planned(&Decision::host) && moved.host_values == 0) throw inert("plan");
  for (Remark& remark : check_moves(config, graph, made.moves, moved))
    made.remarks.push_back(std::move(remark));
  if (disk) made.disk = std::make_unique<DiskStore>(c.disk_checkpointing.path);

  if (!c.verify) return;
  reproductions.insert(reproductions.end(), moved.returned.begin(), moved.returned.end());
  if (reproductions.empty())
    throw Error(
        ExitCode::kConfiguration,
        "activation_checkpointing.verify has no effect: nothing is recomputed, gathered or brought back",
        "choose a mode, a switch or a plan");
  verify_reproductions(graph, *made.registry, reproductions);
}

// MiB that hold the gradients of all parameters: of larger buckets there is still one.
int64_t bucket_that_matters(const Graph& graph, const std::vector<Parameter>& parameters) {
  uint64_t bytes = 0;
  for (const Parameter& p : parameters)
    if (p.gradient != kNone) bytes += graph.value(p.gradient).bytes();
  return static_cast<int64_t>((bytes + (uint64_t{1} << 20) - 1) >> 20);
}

// What follows forward, in a run that goes backward.
void append_training(Graph& graph, const Config& config, const Mesh& mesh, bool least,
                     TrainingProgram& made) {
  const OpRegistry& registry = *made.registry;
  std::vector<Parameter>& parameters = made.model.parameters;
  std::vector<ValueId> targets;
  for (const Parameter& p : parameters) targets.push_back(p.value);
  const Gradients gradients = differentiate(graph, registry, targets, {{made.model.loss, kNone}});
  for (Parameter& p : parameters) p.gradient = gradients.at(p.value);
  checkpoint(graph, config, mesh, least, made);
  reduce_gradients(graph, registry, parameters,
                   {.data_size = mesh.data_size(),
                    .tensor_size = mesh.tensor_size(),
                    .bucket_bytes = static_cast<uint64_t>(config.parallelism.gradient_bucket_mb) << 20});
  const int64_t bucket = config.parallelism.gradient_bucket_mb,
                enough = bucket_that_matters(graph, parameters),
                same = std::max(enough, Config{}.parallelism.gradient_bucket_mb);
  if (config.origins.contains("parallelism.gradient_bucket_mb") && bucket >= enough && bucket != same)
    made.remarks.push_back(
        {"gradient_bucket_mb", fmt::format("all gradients are one bucket, as with {}", same)});
  made.optimizer = append_optimizer(graph, registry, parameters, made.model.loss, optimizer_settings(config),
                                    mesh.data_size(), mesh.tensor_size());
}

std::string threads_text(const Config& config) {
  if (config.device.backend != BackendKind::kCpu) return "";
  const int threads = omp_get_max_threads();
  return fmt::format("{} thread{} of {}", threads, threads == 1 ? "" : "s", cpu::instruction_set());
}

KernelTable make_kernels(const Config& config, const Mesh& mesh, VocabularyReduction* vocabulary,
                         DiskStore* disk, cuda::Libraries* libraries) {
  KernelTable table;
  switch (config.device.backend) {
    case BackendKind::kReference:
      reference::register_kernels(table, vocabulary);
      break;
    case BackendKind::kCpu:
      cpu::register_kernels(table, vocabulary);
      break;
    case BackendKind::kCuda:
      cuda::register_kernels(table, vocabulary, libraries);
      break;
  }
  const CommunicatorLookup lookup = [&mesh](std::string_view axis, StreamId stream) -> Communicator& {
    return mesh.communicator(axis, stream);
  };
  register_comm_kernels(table, lookup);
  register_checkpointing_kernels(table, lookup, disk);
  register_verify_kernels(table, mesh.world().rank());
  return table;
}

}  // namespace

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::kFP64:
      return DType::kF64;
    case Precision::kFP32:
      return DType::kF32;
    case Precision::kBF16:
      return DType::kBF16;
    case Precision::kFP16:
      return DType::kF16;
  }
  throw Error(ExitCode::kInternal, "unknown precision");
}

namespace {

// Of the configuration and the device's file alone: all ranks are taken to share one node, as estimates take
// them to, so that every rank decides the same wherever it runs.
DeviceModel rank_device(const Config& config) {
  const Config::Parallelism& p = config.parallelism;
  DeviceModel device = share_of_rank(read_device_model(config.device.model), config.device.threads,
                                     p.tensor_parallel_size * std::max<int64_t>(1, p.data_parallel_size));
  if (config.device.tf32) device.gemm_f32 = device.gemm_bf16 / 2;  // of tensor cores: half the rate of bf16
  return device;
}

using Compile = Program (*)(Graph, const KernelTable&);

TrainingProgram build(const Config& config, const Mesh& mesh, cuda::Libraries* libraries, Compile compile,
                      bool least) {
  TrainingProgram made;
  made.device = rank_device(config);
  made.threads = threads_text(config);
  for (const auto& [key, why] : config.unreached) made.remarks.push_back({key, why});
  made.registry = std::make_unique<OpRegistry>();
  register_engine_ops(*made.registry);
  register_comm_ops(*made.registry);
  register_checkpointing_ops(*made.registry);
  register_verify_ops(*made.registry);
  if (mesh.tensor_size() > 1)
    made.vocabulary =
        std::make_unique<CommunicatorVocabularyReduction>(mesh.communicator(kTensorAxis, StreamId::kCompute));

  Graph graph;
  const ParallelLayout layout{mesh.tensor_rank(), mesh.tensor_size(), config.parallelism.sequence_parallel};
  made.model = build_gpt2(graph, *made.registry, model_shape(config.model), batch_shape(config), layout,
                          compute_dtype(config.training.precision));
  if (config.training.max_steps > 0)
    append_training(graph, config, mesh, least, made);
  else
    for (Parameter& p : made.model.parameters) p.master = p.value;
  made.program = compile(std::move(graph),
                         make_kernels(config, mesh, made.vocabulary.get(), made.disk.get(), libraries));
  return made;
}

// Speed is no reason to be over the limit.
TrainingProgram build_within_limit(const Config& config, const Mesh& mesh, cuda::Libraries* libraries,
                                   Compile compile) {
  TrainingProgram made = build(config, mesh, libraries, compile, false);
  const auto limit = static_cast<uint64_t>(config.device.memory_limit);
  const auto more_than_least = [](const Choice& choice) {
    return choice.reason == "simulated" && choice.layers > 1;
  };
  if (limit == 0 || made.program.foretold().arena_bytes() <= limit ||
      std::none_of(made.choices.begin(), made.choices.end(), more_than_least))
    return made;
  return build(config, mesh, libraries, compile, true);
}

double predicted_seconds(const TrainingProgram& made, const Config& config) {
  return simulate(made.program.graph, made.program.schedule, made.device,
                  std::max<int64_t>(1, config.training.gradient_accumulation_steps))
      .step_seconds;
}

// sqrt is a compromise between memory and time; with many layers or small ones it may lose on both sides.
std::vector<Remark> compare_with_full(const Config& config, const Mesh& mesh, cuda::Libraries* libraries,
                                      Compile compile, const TrainingProgram& made) {
  Config full = config;
  full.activation_checkpointing.mode = CheckpointingMode::kFull;
  full.activation_checkpointing.number_checkpoints = 0;
  try {
    const TrainingProgram other = build_within_limit(full, mesh, libraries, compile);
    const MemoryLedger &mine = made.program.foretold(), &its = other.program.foretold();
    const double seconds = predicted_seconds(made, config), its_seconds = predicted_seconds(other, config);
    if (its.arena_bytes() >= mine.arena_bytes() || its.host_bytes > mine.host_bytes ||
        its.disk_bytes > mine.disk_bytes || its_seconds >= seconds)
      return {};
    constexpr double kMiB = 1 << 20;
    return {{"mode", fmt::format("full would be better in both: predicted {:.2f} MiB in {:.3f} ms a step, "
                                 "sqrt {:.2f} MiB in {:.3f} ms",
                                 static_cast<double>(its.arena_bytes()) / kMiB, 1e3 * its_seconds,
                                 static_cast<double>(mine.arena_bytes()) / kMiB, 1e3 * seconds)}};
  } catch (const Error& error) {
    if (error.code() != ExitCode::kConfiguration) throw;
    return {};  // a switch that would have no effect there
  }
}

TrainingProgram make(const Config& config, const Mesh& mesh, cuda::Libraries* libraries, Compile compile) {
  TrainingProgram made = build_within_limit(config, mesh, libraries, compile);
  if (config.activation_checkpointing.mode == CheckpointingMode::kSqrt)
    for (Remark& remark : compare_with_full(config, mesh, libraries, compile, made))
      made.remarks.push_back(std::move(remark));
  for (Remark& remark : recorded_elsewhere(config)) made.remarks.push_back(std::move(remark));
  return made;
}

}  // namespace

TrainingProgram make_training_program(const Config& config, const Mesh& mesh, cuda::Libraries* libraries) {
  return make(config, mesh, libraries, compile);
}

TrainingProgram plan_training_program(const Config& config, const Mesh& mesh) {
  return make(config, mesh, nullptr, compile_without_kernels);
}

}  // namespace recollect
