#include "launch/train.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "engine/io/files.h"
#include "launch/config/agree.h"
#include "launch/config/check_reports.h"
#include "launch/config/hf_config.h"
#include "launch/config/read.h"
#include "launch/device_file.h"
#include "launch/plan_file.h"
#include "launch/progress.h"
#include "launch/report/checkpointing_report.h"
#include "launch/report/memory_table.h"
#include "launch/report/rank_report.h"
#include "launch/report/run_folder.h"
#include "launch/session.h"
#include "launch/train_results.h"
#include "launch/world.h"

namespace recollect {

namespace {

constexpr int64_t kStepsToJudge = 3;  // before a disk is called slow

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error(ExitCode::kStorage, "cannot make the folder " + path + ": " + error.message());
}

void announce(const RunDescription& run) {
  fmt::print("{}; {}\nbatch: {}\n", run.model, run.layout, run.batch);
  std::fflush(stdout);
}

void save_model(const Config& config, const Session& session) {
  session.weights().save(config.output_dir + "/model.safetensors", "transformer.");
  if (session.mesh().world().rank() != 0) return;
  write_hf_config(config.output_dir + "/config.json", config.model,
                  config.training.precision == Precision::kFP64 ? "float64" : "float32");
  fmt::print("saved {0}/model.safetensors and {0}/config.json\n", config.output_dir);
}

// Collective. What all ranks report together on an occasion of memory_report.at.
void report_together(const Config& config, const RankReport& report, Communicator& world) {
  if (reports_in(config, ReportFormat::kTable)) {
    const std::vector<RankMemory> ranks = gather_memory(memory_of(report), world);
    if (world.rank() == 0) {
      if (report.measured)
        fmt::print("{}{}", ranks_table(ranks), rank_text(report));
      else
        fmt::print("before the first step, foretold:\n{}{}", rank_text(report), outliers_text(ranks));
      std::fflush(stdout);
    }
  }
  write_run_files(config, report, world);
}

// Not collective: SIGUSR2 comes to one rank earlier than to another, or to one alone.
void report_alone(const Config& config, const RankReport& report) {
  fmt::print("{}", fmt::format("rank {} after step {}/{}\n{}", report.rank, report.steps_done,
                               config.training.max_steps, rank_text(report)));
  std::fflush(stdout);
  write_rank_json(config, report);
}

// All steps, and what comes between them: evaluations, reports, and answers to the signal. `progress` is null
// on all ranks but the first.
StepTimes run_steps(const Config& config, Session& session, Progress* progress, const ReportSignal& signal,
                    TrainResults& results) {
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
    if (asked != answered) report_alone(config, report);
    if (together) report_together(config, report, session.mesh().world());
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
      if (!warning.empty())
        fmt::print(stderr, "recollect: rank {}: {}\n", session.mesh().world().rank(), warning);
      warned = !warning.empty();
    }
    after_step(result.step);
  }
  if (config.training.max_steps == 0) after_step(0);
  if (progress) progress->finish();
  results.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return times;
}

void report_results(const Config& config, const Session& session, TrainResults& results) {
  results.device_memory_peak = device_memory_peak(session);
  if (session.mesh().world().rank() != 0 || results.steps == 0) return;
  write_text_file(config.output_dir + "/train_results.json", results_json(results));
  fmt::print("{}", results_text(results));
}

}  // namespace

void train_rank(Config config, Communicator& world, const ReportSignal& signal) {
  try {
    resolve_world(config, world.size());
    check_ranks_agree(config, world);
    agree_on_threads(world);
    check_device_models_agree(read_device_model(config.device.model), world);
    const bool first = world.rank() == 0;
    if (first) {
      make_folder(config.output_dir);
      write_text_file(config.output_dir + "/config.resolved.yaml", dump_resolved(config));
    }
    world.barrier();

    Session session(config, world);
    check_plans_agree(session.plan(), session.moves(), world);
    if (first) write_text_file(config.output_dir + "/plan.yaml", to_yaml(session.plan()));
    std::unique_ptr<Progress> progress;
    if (first) {
      announce(describe(config, session.mesh(), session.made()));
      progress = std::make_unique<Progress>(config, session.executor().program().foretold().arena_bytes());
    }
    if (reports_at(config, "start"))
      report_together(config, foretell(config, session.mesh(), session.made(), session.executor().program()),
                      world);
    TrainResults results;
    const StepTimes times = run_steps(config, session, progress.get(), signal, results);
    if (config.checkpoint.save_model)
      save_model(config, session);  // before a report that may fail to be written
    if (reports_at(config, "end")) report_together(config, report_of(config, session, times), world);
    report_results(config, session, results);
    world.barrier();  // no rank leaves while another may still need it
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

}  // namespace recollect
