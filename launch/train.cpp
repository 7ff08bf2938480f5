#include "launch/train.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/io/files.h"
#include "launch/config/agree.h"
#include "launch/config/check_reports.h"
#include "launch/config/read.h"
#include "launch/device_file.h"
#include "launch/inputs.h"
#include "launch/output_folder.h"
#include "launch/plan_file.h"
#include "launch/planned_files.h"
#include "launch/progress.h"
#include "launch/recorded.h"
#include "launch/report/checkpointing_report.h"
#include "launch/report/memory_table.h"
#include "launch/report/rank_report.h"
#include "launch/report/run_folder.h"
#include "launch/save_model.h"
#include "launch/session.h"
#include "launch/standard_output.h"
#include "launch/train_results.h"
#include "launch/world.h"

namespace recollect {

namespace {

constexpr int64_t kStepsToJudge = 3;  // before a disk is called slow

void announce(const RunDescription& run) { say("{}; {}\nbatch: {}\n", run.model, run.layout, run.batch); }

// Collective. What all ranks report together on an occasion of memory_report.at.
void report_together(const Config& config, const RankReport& report, Communicator& world,
                     ReportFiles& files) {
  if (reports_in(config, ReportFormat::kTable)) {
    const std::vector<RankMemory> ranks = gather_memory(memory_of(report), world);
    if (world.rank() == 0) {
      if (report.measured)
        say("{}{}", ranks_table(ranks), rank_text(report));
      else
        say("before the first step, foretold:\n{}{}", rank_text(report), outliers_text(ranks));
    }
  }
  files.write_run(report, world);
}

// Not collective: SIGUSR2 comes to one rank earlier than to another, or to one alone.
void report_alone(const Config& config, const RankReport& report, ReportFiles& files) {
  say("rank {} after step {}/{}\n{}", report.rank, report.steps_done, config.training.max_steps,
      rank_text(report));
  files.write_rank(report);
}

// All steps, and what comes between them: evaluations, reports, and answers to the signal. `progress` is null
// on all ranks but the first.
StepTimes run_steps(const Config& config, Session& session, Progress* progress, const ReportSignal& signal,
                    TrainResults& results, ReportFiles& files) {
  const auto start = std::chrono::steady_clock::now();
  StepTimes times;
  double seconds = 0;
  bool warned = false;
  uint32_t answered = 0;
  const auto after_step = [&](int64_t done) {
    if (evaluation_due(config, done)) {
      const EvaluationResult result = session.evaluate();
      if (progress) progress->report(result, done);
    }
    const bool together = reports_at(config, fmt::format("step:{}", done));
    const uint32_t asked = signal.count();
    if (!together && asked == answered) return;
    if (progress) progress->finish();
    const RankReport report = report_of(config, session, times);
    if (asked != answered) report_alone(config, report, files);
    if (together) report_together(config, report, session.mesh().world(), files);
    answered = asked;
  };
  for (int64_t step = 0; step < config.training.max_steps; ++step) {
    const StepResult result = session.step();
    times.add(result.seconds);
    results.add(result, config.training.global_batch_size);
    if (progress) progress->report(result);
    seconds += result.seconds;
    if (!warned && result.step >= std::min(kStepsToJudge, config.training.max_steps)) {
      const std::string warning = slow_disk_warning(session, result.step, seconds);
      if (!warning.empty()) warn("rank {}: {}", session.mesh().world().rank(), warning);
      warned = !warning.empty();
    }
    after_step(result.step);
  }
  if (config.training.max_steps == 0) after_step(0);
  if (progress) progress->finish();
  results.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return times;
}

void report_results(const Config& config, const Session& session, TrainResults& results, ReportFiles& files) {
  results.device_memory_peak = device_memory_peak(session);
  if (session.mesh().world().rank() != 0 || results.steps == 0) return;
  files.write(config.output_dir + "/train_results.json", results_json(results));
  say("{}", results_text(results));
}

// What rank 0 writes before the first step, now that nothing is left that could be refused.
// `recorded`: the first line of files that others may start from.
void begin_folder(const Config& config, const Session& session, const std::string& recorded,
                  OutputFolder& folder) {
  const std::string resolved = recorded + dump_resolved(config), plan = recorded + to_yaml(session.plan());
  folder.take(planned_files(config, session, resolved.size() + plan.size()));
  write_text_file(config.output_dir + "/config.resolved.yaml", resolved);
  write_text_file(config.output_dir + "/plan.yaml", plan);
}

}  // namespace

void train_rank(Config config, Communicator& world, const ReportSignal& signal) {
  try {
    resolve_world(config, world.size());
    check_ranks_agree(config, world);
    agree_on_threads(world);
    check_device_models_agree(read_device_model(config.device.model), world);
    check_inputs_agree(config, world);
    std::unique_ptr<OutputFolder> folder;
    if (world.rank() == 0) folder = std::make_unique<OutputFolder>(config);

    const std::string recorded = recorded_line();  // looks at code that counts as resident from then on
    Session session(config, world);
    check_plans_agree(session.plan(), session.moves(), world);
    if (folder) begin_folder(config, session, recorded, *folder);
    ModelSave model(config, session);
    world.barrier();  // nobody trains for nothing
    ReportFiles files(config);
    std::unique_ptr<Progress> progress;
    if (folder) {
      announce(describe(config, session.mesh(), session.made()));
      for (const Remark& remark : recorded_elsewhere(config)) warn("{}", remark.sentence);
      progress = std::make_unique<Progress>(config, session.executor().program().foretold().arena_bytes());
    }
    if (reports_at(config, "start")) {
      RankReport report = foretell(config, session.mesh(), session.made(), session.executor().program());
      report.resident = session.resident();
      report_together(config, report, world, files);
    }
    TrainResults results;
    const StepTimes times = run_steps(config, session, progress.get(), signal, results, files);
    session.check_trained();
    model.save();
    if (reports_at(config, "end")) report_together(config, report_of(config, session, times), world, files);
    report_results(config, session, results, files);
    model.check_place();
    world.barrier();  // no rank leaves while another may still need it
    if (folder) folder->leave();
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

}  // namespace recollect
