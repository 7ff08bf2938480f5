#include "launch/report/checkpointing_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "checkpointing/batch_halves.h"
#include "checkpointing/recompute.h"
#include "engine/core/duration.h"
#include "launch/program/layer_choices.h"

namespace recollect {

namespace {

std::string mib(uint64_t bytes) { return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::string rate(const DiskStore::Traffic& traffic) {
  return fmt::format("{:.0f} MB/s", 1e-6 * traffic.bytes_per_second());
}

// The cost of optimizer.offload. Its savings are in a remark on the program.
std::string offload_text(const Measurements& measured, int64_t steps) {
  const double waited = exposed_seconds_of_states(measured.programs);
  std::string text = fmt::format("{} a step exposed", duration_text(waited / static_cast<double>(steps)));
  if (const DiskStore* disk = measured.training().state_disk.get())
    text = fmt::format("read at {} and written at {}, {} I/O, {}; {} on the disk", rate(disk->read()),
                       rate(disk->written()), disk->direct() ? "direct" : "buffered", text,
                       mib(measured.executor().program().predicted().disk_state_bytes));
  return text;
}

// The effect of a mode: the activations that are not saved, and the ops that recompute them.
SwitchEffect effect_of_mode(const char* name, const Plan& plan, const Graph& graph,
                            const Timeline& timeline) {
  SwitchEffect effect{.name = name, .flops = recomputed_flops(graph)};
  for (const Value& value : graph.values()) {
    const auto decision = plan.values.find(std::string(name_in_plan(value.name)));
    if (decision == plan.values.end() || decision->second.save) continue;
    ++effect.values;
    effect.saved_bytes += value.bytes();
  }
  effect.running.predicted = recompute_seconds(timeline.ops, timeline.predicted);
  if (timeline.measured) effect.running.measured = recompute_seconds(timeline.ops, *timeline.measured);
  return effect;
}

}  // namespace

std::vector<SwitchEffect> effects_of_switches(const Config& config, const TrainingProgram& training,
                                              const Program& program, const StepReport& step,
                                              const Timeline& timeline) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  const ResidencyReport& r = training.checkpointed.residency;
  const auto exposed = [&](std::initializer_list<StreamId> streams) {
    SwitchCost cost;
    double measured = 0;
    for (StreamId s : streams) {
      cost.predicted += step.predicted_exposed.by_stream[static_cast<std::size_t>(s)];
      measured += step.measured_exposed.by_stream[static_cast<std::size_t>(s)];
    }
    if (step.steps > 0) cost.measured = measured;
    return cost;
  };
  const auto taken = [&](std::initializer_list<StreamId> streams) {
    double seconds = 0;
    for (StreamId s : streams) seconds += step.taken[static_cast<std::size_t>(s)];
    return seconds;
  };
  std::vector<SwitchEffect> effects;
  if (c.mode != CheckpointingMode::kNone || !c.plan.empty())
    effects.push_back(effect_of_mode(c.plan.empty() ? "mode" : "plan", training.checkpointed.plan,
                                     program.graph, timeline));
  if (training.checkpointed.gathered.values > 0)
    effects.push_back({.name = "sequence_parallel",
                       .values = training.checkpointed.gathered.values,
                       .saved_bytes = training.checkpointed.gathered.saved_bytes,
                       .moved_bytes = training.checkpointed.gathered.gathered_bytes,
                       .exposed = exposed({StreamId::kGather})});
  if (r.partitioned_values > 0)
    effects.push_back({.name = "partition_activations",
                       .values = r.partitioned_values,
                       .saved_bytes = r.partition_saved_bytes,
                       .moved_bytes = r.gathered_bytes,
                       .exposed = exposed({StreamId::kGather}),
                       .taken = taken({StreamId::kGather})});
  if (r.host_values > 0)
    effects.push_back({.name = "cpu_checkpointing",
                       .values = r.host_values,
                       .saved_bytes = r.host_saved_bytes,
                       .moved_bytes = r.to_host_bytes + r.to_device_bytes,
                       .exposed = exposed({StreamId::kDeviceToHost, StreamId::kHostToDevice}),
                       .taken = taken({StreamId::kDeviceToHost, StreamId::kHostToDevice})});
  if (r.disk_values > 0)
    effects.push_back({.name = "disk_checkpointing",
                       .values = r.disk_values,
                       .saved_bytes = r.disk_saved_bytes,
                       .moved_bytes = r.to_disk_bytes + r.from_disk_bytes,
                       .exposed = exposed({StreamId::kDisk}),
                       .taken = taken({StreamId::kDisk})});
  if (r.packed_values > 0)
    effects.push_back(
        {.name = "storage_dtype", .values = r.packed_values, .saved_bytes = r.packed_saved_bytes});
  return effects;
}

std::vector<SwitchSentence> checkpointing_report(const Config& config, const Measurements& measured,
                                                 const StepReport& step) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  const Executor& executor = measured.executor();
  const ResidencyReport& r = measured.training().checkpointed.residency;
  const auto exposed = [&](StreamId stream) {
    return duration_text(step.measured_exposed.by_stream[static_cast<std::size_t>(stream)]) +
           " a step exposed";
  };
  // The cost of a switch in step time: waits, and the delay of kernels by overlapped copies.
  const auto cost = [&](std::initializer_list<StreamId> streams) {
    double waits = 0, taken = 0;
    for (StreamId s : streams) {
      waits += step.measured_exposed.by_stream[static_cast<std::size_t>(s)];
      taken += step.taken[static_cast<std::size_t>(s)];
    }
    if (config.device.backend == BackendKind::kCuda)
      return fmt::format("cost {} a step", duration_text(waits));
    return fmt::format("cost {} a step, {} of it as processor time taken from kernels",
                       duration_text(waits + taken), duration_text(taken));
  };
  std::vector<SwitchSentence> report;
  const bool planned = !c.plan.empty();
  if (c.mode != CheckpointingMode::kNone || planned)
    report.emplace_back(
        planned ? "plan" : "mode",
        fmt::format("{}: {:.3f} GFLOP a micro-batch run again", planned ? c.plan : name_of(c.mode),
                    1e-9 * recomputed_flops(executor.program().graph)));
  if (const GatheredAgain& g = measured.training().checkpointed.gathered; g.values > 0)
    report.emplace_back(
        "sequence_parallel",
        fmt::format("{} activations saved in parts: {} less, gathered {} again a micro-batch, {}", g.values,
                    mib(g.saved_bytes), mib(g.gathered_bytes), exposed(StreamId::kGather)));
  if (r.partitioned_values > 0)
    report.emplace_back("partition_activations",
                        fmt::format("{} values: saved {}, gathered {} a micro-batch, {}; {}",
                                    r.partitioned_values, mib(r.partition_saved_bytes), mib(r.gathered_bytes),
                                    exposed(StreamId::kGather), cost({StreamId::kGather})));
  if (r.host_values > 0)
    report.emplace_back(
        "cpu_checkpointing",
        fmt::format("{} values: saved {}, moved {} out and {} back a micro-batch, {} going out and {} "
                    "coming back; {}; {} in host memory",
                    r.host_values, mib(r.host_saved_bytes), mib(r.to_host_bytes), mib(r.to_device_bytes),
                    exposed(StreamId::kDeviceToHost), exposed(StreamId::kHostToDevice),
                    cost({StreamId::kDeviceToHost, StreamId::kHostToDevice}),
                    mib(executor.program().predicted().host_bytes)));
  if (const DiskStore* disk = measured.training().disk.get())
    report.emplace_back(
        "disk_checkpointing",
        fmt::format(
            "{} values: saved {}, written {} at {} and read {} at {} a micro-batch, {} I/O, {}; {}; {} "
            "on the disk",
            r.disk_values, mib(r.disk_saved_bytes), mib(r.to_disk_bytes), rate(disk->written()),
            mib(r.from_disk_bytes), rate(disk->read()), disk->direct() ? "direct" : "buffered",
            exposed(StreamId::kDisk), cost({StreamId::kDisk}),
            mib(executor.program().predicted().disk_bytes)));
  if (r.packed_values > 0)
    report.emplace_back("storage_dtype",
                        fmt::format("{}, lossy: {} values stored in {} less", name_of(c.storage_dtype),
                                    r.packed_values, mib(r.packed_saved_bytes)));
  if (measured.training().optimizer.offload.values > 0 && step.steps > 0)
    report.emplace_back("optimizer.offload", offload_text(measured, step.steps));
  if (!c.contiguous_checkpointing) {
    const MemoryLedger& ledger = executor.program().predicted();
    report.emplace_back(
        "contiguous_checkpointing off",
        fmt::format("the pool takes {} for values of {}: {} of fragmentation", mib(ledger.pooled_bytes),
                    mib(ledger.pooled_peak), mib(ledger.pooled_bytes - ledger.pooled_peak)));
  }
  if (c.verify) {
    const std::vector<Op>& ops = executor.program().graph.ops();
    report.emplace_back("verify", fmt::format("{} values a micro-batch compared, all equal",
                                              std::count_if(ops.begin(), ops.end(), [](const Op& op) {
                                                return op.role == Role::kVerify;
                                              })));
  }
  for (const Choice& choice : measured.training().checkpointed.choices)
    report.emplace_back(choice.key, fmt::format("{} ({})", choice.layers, choice.reason));
  for (const Remark& remark : measured.training().remarks) {
    const auto of_key = [&](const auto& line) { return line.first == remark.key; };
    const auto line = std::find_if(report.begin(), report.end(), of_key);
    if (line == report.end())
      report.emplace_back(remark.key, remark.sentence);
    else
      line->second += "; " + remark.sentence;
  }
  for (SwitchSentence& line : layer_sentences(
           choices_by_layer(config, measured.training().checkpointed.plan, executor.program().graph)))
    report.push_back(std::move(line));
  return report;
}

std::string slow_disk_warning(const ProgramCache& programs, int64_t steps, double seconds) {
  const TrainingProgram& training = programs.neediest().training;
  const DiskStore* disk = training.disk ? training.disk.get() : training.state_disk.get();
  const double waited = exposed_seconds(programs, StreamId::kDisk);
  if (!disk || waited <= 0.1 * seconds) return "";
  return fmt::format(
      "the disk is too slow for this step: {} of {} a step are spent waiting for it (it writes {} and reads "
      "{}); save less on it, or give the step more compute to overlap with it",
      duration_text(waited / static_cast<double>(steps)), duration_text(seconds / static_cast<double>(steps)),
      rate(disk->written()), rate(disk->read()));
}

}  // namespace recollect
