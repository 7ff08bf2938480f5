#include "launch/report/rank_report.h"

#include <fmt/format.h>

#include "checkpointing/simulator.h"
#include "launch/limits.h"

namespace recollect {

namespace {

std::string checkpointing_text(const Config::ActivationCheckpointing& c) {
  std::string text = c.plan.empty() ? fmt::format("mode {}", name_of(c.mode)) : "plan " + c.plan;
  if (c.k > 0) text += fmt::format(" {}", c.k);
  if (c.partition_activations) text += ", partition_activations";
  if (c.cpu_checkpointing) text += ", cpu_checkpointing";
  if (!c.disk_checkpointing.path.empty()) text += ", disk_checkpointing";
  if (c.storage_dtype != StorageDType::kSame) text += fmt::format(", stored as {}", name_of(c.storage_dtype));
  if (!c.contiguous_checkpointing) text += ", contiguous_checkpointing off";
  return text;
}

}  // namespace

RunDescription describe(const Config& config, const Mesh& mesh, const TrainingProgram& made) {
  int64_t whole = 0;
  for (const Parameter& p : made.model.parameters) whole += p.rows * p.columns;
  return {.name = config.output_dir,
          .model = fmt::format("{}: {} parameters, {}, backend {}", name_of(config.model.type), whole,
                               name_of(config.training.precision), name_of(config.device.backend)),
          .layout = fmt::format("{} data x {} tensor ranks ({}){}{}", mesh.data_size(), mesh.tensor_size(),
                                mesh.world().name(),
                                config.parallelism.sequence_parallel ? ", sequence parallel" : "",
                                made.threads.empty() ? "" : ", each " + made.threads),
          .batch = fmt::format("{} sequences of {} = {} micro-batches of {} on each data rank",
                               config.training.global_batch_size, config.data.sequence_length,
                               config.training.gradient_accumulation_steps, config.training.micro_batch_size),
          .checkpointing = checkpointing_text(config.activation_checkpointing)};
}

RankReport foretell(const Config& config, const Mesh& mesh, const TrainingProgram& made,
                    const Program& program) {
  StepTimeline simulated;
  const Simulation simulation =
      simulate(program.graph, program.schedule, made.device,
               std::max<int64_t>(1, config.training.gradient_accumulation_steps), &simulated);
  RankReport report{.rank = mesh.world().rank(),
                    .ranks = mesh.world().size(),
                    .run = describe(config, mesh, made),
                    .foretold = program.foretold(),
                    .measured = {},
                    .communication_buffers = mesh.staging_bytes(),
                    .resident = {},
                    .switches = {},
                    .sentences = {},
                    .step = {.device = made.device.name, .foretold = simulation.step_seconds},
                    .timeline = make_timeline(program, std::move(simulated))};
  report.step.foretold_exposed = exposed_waits(report.timeline.ops, report.timeline.foretold);
  report.switches = effects_of_switches(config, made, program, report.step, report.timeline);
  return report;
}

RankReport report_of(const Config& config, const Session& session, const StepTimes& times) {
  const uint64_t resident = resident_bytes();  // before the report adds its own
  const Executor& executor = session.executor();
  RankReport report = foretell(config, session.mesh(), session.made(), executor.program());
  report.steps_done = times.steps();
  add_measurement(config, session, times, report.step);
  report.measured = executor.measured();
  report.resident = session.resident();
  if (report.resident.predicted > 0) report.resident.measured = resident;
  if (const auto memory = session.backend().device().memory())
    report.beside_arena = memory->used() - report.measured->arena_bytes();
  report.device_communicators = session.mesh().device_bytes();
  report.sentences = checkpointing_report(config, session, report.step);
  if (const uint64_t buffer = save_buffer_bytes(config); buffer > 0)
    report.sentences.emplace_back("save buffer",
                                  fmt::format("{} bytes of host memory beside the arenas", buffer));
  if (const StepRecorder* recorder = session.recorder(); recorder && recorder->complete()) {
    report.timeline.measured = recorder->timeline();
    report.timeline.step = config.profiling.step;
  }
  report.switches =
      effects_of_switches(config, session.made(), executor.program(), report.step, report.timeline);
  return report;
}

}  // namespace recollect
