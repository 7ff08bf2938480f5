#include "launch/report/rank_report.h"

#include <fmt/format.h>

#include "checkpointing/simulator.h"
#include "engine/core/byte_count.h"
#include "launch/program/estimate.h"
#include "launch/program/layer_choices.h"
#include "launch/program/lengths.h"
#include "launch/program/limits.h"
#include "launch/program/snapshot_buffer.h"
#include "launch/ranks/program_identity.h"

namespace recollect {

namespace {

std::string checkpointing_text(const CheckpointingSettings& c) {
  std::string text = c.plan.empty() ? fmt::format("mode {}", name_of(c.mode)) : "plan " + c.plan;
  if (c.k > 0) text += fmt::format(" {}", c.k);
  if (c.partition_activations) text += ", partition_activations";
  if (c.cpu_checkpointing) text += ", cpu_checkpointing";
  if (!c.disk_checkpointing.path.empty()) text += ", disk_checkpointing";
  if (c.storage_dtype != StorageDType::kSame) text += fmt::format(", stored as {}", name_of(c.storage_dtype));
  if (!c.contiguous_checkpointing) text += ", contiguous_checkpointing off";
  return text;
}

double optimizer_seconds(const StepTimeline& step) {
  for (const StepTimeline::Run& run : step.runs)
    if (run.micro_batch == StepTimeline::kOptimizer) return 1e-9 * static_cast<double>(run.end - run.begin);
  return 0;
}

double simulated_step(const Config& config, const Program& program, const DeviceModel& device) {
  return simulate(program.graph, program.schedule, device,
                  std::max<int64_t>(1, config.training.gradient_accumulation_steps))
      .step_seconds;
}

// "8 sequences of 128", or "of at most 128" if lengths vary.
std::string sequences_text(const Config& config) {
  const char* const longest = length_multiple(config) > 0 ? "at most " : "";
  return fmt::format("{} sequences of {}{}", config.training.global_batch_size, longest,
                     config.data.sequence_length);
}

}  // namespace

std::string ranks_text(const Config& config, const Mesh& mesh) {
  return fmt::format("{} data x {} tensor ranks ({}){}", mesh.data_size(), mesh.tensor_size(),
                     mesh.world().name(), config.parallelism.sequence_parallel ? ", sequence parallel" : "");
}

RunDescription describe(const Config& config, const Mesh& mesh, const TrainingProgram& training) {
  int64_t whole = 0;
  for (const Parameter& p : training.model.parameters) whole += p.rows * p.columns;
  return {.name = config.output_dir,
          .model = fmt::format("{}: {} parameters, {}, backend {}", config.model.type, whole,
                               name_of(config.training.precision), name_of(config.device.backend)),
          .layout = ranks_text(config, mesh) +
                    (training.threads.empty()
                         ? ""
                         : fmt::format(", each {}, {}", training.threads, mathematics_library())),
          .batch = fmt::format("{} = {} micro-batch{} of {} on each data rank", sequences_text(config),
                               config.training.gradient_accumulation_steps,
                               config.training.gradient_accumulation_steps == 1 ? "" : "es",
                               config.training.micro_batch_size),
          .checkpointing = checkpointing_text(config.activation_checkpointing)};
}

ReservedMemory reserved_for(const MemoryLedger& needs) {
  return {needs.arena_bytes(), needs.arena_bytes(), needs.host_bytes,
          needs.disk_bytes + needs.disk_state_bytes};
}

RankReport predict(const Config& config, const Mesh& mesh, const TrainingProgram& training,
                   const Program& program, const MemoryLedger& needs) {
  StepTimeline simulated;
  const Simulation simulation =
      simulate(program.graph, program.schedule, training.shown,
               std::max<int64_t>(1, config.training.gradient_accumulation_steps), &simulated);
  RankReport report{.rank = mesh.world().rank(),
                    .ranks = mesh.world().size(),
                    .run = describe(config, mesh, training),
                    .start = {},
                    .max_steps = config.training.max_steps,
                    .reserved = reserved_for(needs),
                    .predicted = needs,
                    .measured = {},
                    .communication_buffers = mesh.staging_bytes(),
                    .resident = {},
                    .switches = {},
                    .sentences = {},
                    .step = {.device = training.shown.name, .predicted = simulation.step_seconds},
                    .lengths = {},
                    .timeline = make_timeline(program, training.shown, std::move(simulated))};
  report.step.predicted_exposed = exposed_waits(report.timeline.ops, report.timeline.predicted);
  report.switches = effects_of_switches(config, training, program, report.step, report.timeline);
  const auto layers = layer_sentences(choices_by_layer(config, training.checkpointed.plan, program.graph));
  if (layers.empty()) return report;
  for (const Remark& remark : training.remarks) report.sentences.emplace_back(remark.key, remark.sentence);
  report.sentences.insert(report.sentences.end(), layers.begin(), layers.end());
  return report;
}

RankReport report_of(const Config& config, const Measurements& measured, const RunStart& start) {
  const uint64_t resident = resident_bytes();  // before the report uses memory itself
  const Executor& executor = measured.executor();
  RankReport report =
      predict(config, measured.mesh, measured.training(), executor.program(), measured.programs.needs());
  report.start = start;
  report.steps_done = measured.times.steps();
  const int64_t steps = measured.times.since_restart();
  if (length_multiple(config) > 0 && steps > 0) {
    report.lengths = report_lengths(measured.programs, measured.training().shown,
                                    config.training.gradient_accumulation_steps);
    report.step.predicted =
        predicted_step(report.lengths, steps, optimizer_seconds(report.timeline.predicted));
  }
  add_measurement(config, measured, report.step);
  report.reserved.arena = measured.programs.memory().arena(MemorySpace::kDevice).bytes();
  if (const std::optional<MemorySoFar> memory = measured.programs.memory_so_far()) {
    report.predicted = memory->predicted;
    report.measured = memory->measured;
  }
  report.resident = measured.programs.resident();
  if (report.resident.predicted > 0) report.resident.measured = resident;
  if (const auto memory = executor.memory().device().memory())
    report.beside_arena = memory->used() - report.reserved.arena;
  report.device_communicators = measured.mesh.device_bytes();
  report.sentences = checkpointing_report(config, measured, report.step);
  if (const uint64_t buffer = save_buffer_bytes(config); buffer > 0)
    report.sentences.emplace_back("save buffer", byte_count(buffer) + " of host memory beside the arenas");
  if (const uint64_t buffer =
          snapshot_buffer_bytes(config, measured.training().model, executor.program().graph, measured.mesh,
                                measured.mesh.world().rank());
      buffer > 0)
    report.sentences.emplace_back("snapshot buffer",
                                  byte_count(buffer) + " of host memory beside the arenas");
  if (!measured.adapted.empty()) report.sentences.emplace_back("replan_after", measured.adapted);
  if (const StepRecorder* recorder = measured.programs.recorder();
      config.profiling.step > 0 && recorder && recorder->complete() &&
      recorder->is_of(executor.program().graph)) {
    report.timeline.measured = recorder->timeline();
    report.timeline.step = recorder->step();
  }
  report.switches =
      effects_of_switches(config, measured.training(), executor.program(), report.step, report.timeline);
  return report;
}

std::optional<Uncheckpointed> predict_uncheckpointed(
    const Config& config, const TrainingProgram& training, const Program& program,
    const std::function<TrainingProgram(const Config&)>& plan) {
  if (!checkpoints(config) || config.training.max_steps == 0) return {};
  try {
    const TrainingProgram none = plan(without_checkpointing(config));
    if (none.checkpointed.refusal) return {};
    return Uncheckpointed{.peak = none.program.predicted().peak(),
                          .step = simulated_step(config, none.program, none.shown),
                          .with_step = simulated_step(config, program, training.shown)};
  } catch (const Error&) {  // a report must not end the run
    return {};
  }
}

}  // namespace recollect
