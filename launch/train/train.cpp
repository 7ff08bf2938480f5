#include "launch/train/train.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpointing/device_file.h"
#include "checkpointing/plan_file.h"
#include "comm/agree.h"
#include "comm/bootstrap.h"
#include "engine/core/freed_memory.h"
#include "engine/core/printable.h"
#include "engine/io/standard_output.h"
#include "launch/config/check_reports.h"
#include "launch/config/data_source.h"
#include "launch/config/machine_memory.h"
#include "launch/config/masking.h"
#include "launch/config/read.h"
#include "launch/program/lengths.h"
#include "launch/program/recorded.h"
#include "launch/ranks/inputs.h"
#include "launch/ranks/same_configuration.h"
#include "launch/ranks/world.h"
#include "launch/report/rank_report.h"
#include "launch/report/reports.h"
#include "launch/report/run_folder.h"
#include "launch/train/best_model.h"
#include "launch/train/busy_cores.h"
#include "launch/train/live_file.h"
#include "launch/train/opening.h"
#include "launch/train/output_folder.h"
#include "launch/train/planned_files.h"
#include "launch/train/progress.h"
#include "launch/train/save_model.h"
#include "launch/train/session.h"
#include "launch/train/snapshot_lock.h"
#include "launch/train/snapshots.h"
#include "launch/train/train_results.h"

namespace recollect {

namespace {

constexpr int64_t kStepsToJudge = 3;  // before a disk counts as slow

// The fixed facts for reports. The first rank plans mode none for comparison, while the others wait.
RunStart start_of(const Config& config, const Session& session, const StartTimes& times) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  RunStart start{.began = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                 .uncheckpointed = {},
                 .times = times};
  const bool shown = reports_in(config, ReportFormat::kJson) || reports_in(config, ReportFormat::kHtml);
  if (session.mesh().world().rank() == 0 && shown && !config.memory_report.at.empty()) {
    const Mesh& mesh = session.mesh();
    const auto plan = [&](const Config& none) {
      return plan_training_program(none, mesh, build_training_graph(none, mesh, batch_shape(none)));
    };
    start.uncheckpointed =
        predict_uncheckpointed(config, session.training_program(), session.executor().program(), plan);
    if (start.uncheckpointed) give_back_freed_memory();  // the resident prediction does not include it
  }
  return start;
}

// Runs all steps, and between them evaluations, reports, and responses to the signal. `progress` is null on
// all ranks except the first. After a preemption returns the signal, with the snapshot saved; otherwise 0.
int run_steps(const Config& config, Session& session, Progress* progress, BestModel& best_model,
              Snapshots* snapshots, const ReportSignal& signal, Preemption& preemption, CallLog& log,
              TrainResults& results, const RunStart& begun, ReportFiles& files, BusyCores* cores) {
  const auto start = std::chrono::steady_clock::now();
  LiveFile live(config, session);
  double seconds = 0;
  bool warned = false;
  uint32_t answered = 0;
  const auto after_step = [&](int64_t done) {
    if (evaluation_due(config, session.so_far())) {
      const EvaluationResult result = session.evaluate();
      if (progress) progress->report(result, done);
      results.evaluated = result;
      best_model.after_evaluation(result);
    }
    const bool together = reports_at(config, fmt::format("step:{}", done));
    const uint32_t asked = signal.count();
    if (!together && asked == answered) return;
    if (progress) progress->finish();
    const RankReport report = report_of(config, session.measurements(), begun);
    if (asked != answered) report_alone(config, report, files);
    if (together) report_together(config, report, session.mesh().world(), files);
    answered = asked;
  };
  const auto look_at_cores = [&] {
    const std::string busy = cores ? cores->look() : "";
    const std::optional<RankEnvironment> who = busy.empty() ? std::nullopt : discover_ranks();
    if (progress && !busy.empty())
      warn("{}", busy);
    else if (who && who->local_rank == 0)  // the first rank of another machine
      warn("rank {}: {}", who->rank, busy);
  };
  int preempted_by = 0;
  look_at_cores();
  preemption.begin_steps(config, session.progress().step);
  while (!session.is_done() && preempted_by == 0) {
    log.begin_step(session.progress().step + 1);
    const StepResult result = session.step();
    if (progress && !result.spike.empty()) warn("step {}: {}", result.step, result.spike);
    if (!result.not_finite.empty() && config.numerics.on_non_finite == OnNonFinite::kRollback) {
      const TrainingProgress back = snapshots->go_back();
      session.go_back_to(back);
      if (progress) progress->go_back_to(back.step);
      if (progress) warn("{}; back to step {}, without the batches since then", result.not_finite, back.step);
      continue;
    }
    if (progress && !result.not_finite.empty()) warn("{}; its update is left out", result.not_finite);
    if (results.steps == 0) results.first_step = result.seconds;
    results.add(result, config.training.global_batch_size);
    if (progress) progress->report(result);
    live.after_step(result);
    look_at_cores();
    seconds += result.seconds;
    if (!warned && result.step >= std::min(kStepsToJudge, config.training.max_steps)) {
      const std::string warning = slow_disk_warning(session.programs(), result.step, seconds);
      if (!warning.empty()) warn("rank {}: {}", session.mesh().world().rank(), warning);
      warned = !warning.empty();
    }
    after_step(result.step);
    if (snapshots) snapshots->after_step();
    preemption.after_step(result.step);
    preempted_by = preemption.agree(session.mesh().world());
  }
  const bool preempted = !session.is_done();
  if (snapshots) snapshots->finish();
  if (snapshots) results.snapshots = snapshots->totals();
  if (config.training.max_steps == 0) after_step(0);
  if (progress) progress->finish();
  results.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return preempted ? preempted_by : 0;
}

// Runs on every rank. Throws kStorage if the state of the latest step is lost because it could not be saved.
void say_preempted(const Config& config, const Session& session, const Snapshots* snapshots, int signal) {
  const char* const name = signal == SIGUSR1 ? "SIGUSR1" : "SIGTERM";
  const int64_t step = session.progress().step;
  if (snapshots && !snapshots->failure().empty())
    throw Error(ExitCode::kStorage,
                fmt::format("preempted by {} after step {}, and its snapshot could not be saved: {}", name,
                            step, snapshots->failure()),
                "make room in " + config.snapshot_folder());
  if (session.mesh().world().rank() == 0)
    warn("preempted by {} after step {} of {}: {}", name, step, config.training.max_steps,
         snapshots ? "its snapshot is in " + config.snapshot_folder()
                   : "nothing is saved, since snapshot.every_steps, every_epochs and every_minutes are 0");
  session.mesh().world().barrier();  // no rank ends while another still saves
}

void say_stopped(const Config& config, const Session& session) {
  const BestEvaluation& best = session.best();
  const double threshold = config.evaluation.early_stopping_threshold;
  if (session.stops_early() && session.mesh().world().rank() == 0)
    say("stopped after step {} of {}: {} not better{} than the best, {} {:.4f} after step {}\n",
        session.progress().step, config.training.max_steps,
        best.not_better == 1 ? "an evaluation was"
                             : fmt::format("{} evaluations in a row were", best.not_better),
        threshold > 0 ? fmt::format(" by more than {}", threshold) : "", best.metric, best.value, best.step);
}

// How to read the reports of all ranks; "" if the run writes none.
std::string reports_left(const Config& config) {
  const bool page = reports_in(config, ReportFormat::kHtml), json = reports_in(config, ReportFormat::kJson);
  std::string text = page ? config.output_dir + "/report.html" : "";
  if (json) text += fmt::format("{}`recollect report {}`", page ? ", or " : "", config.output_dir);
  return text;
}

void report_results(const Config& config, const Session& session, const BestModel& best_model,
                    TrainResults& results, ReportFiles& files) {
  add_ranks(session, results);
  results.best = session.best();
  results.stopped_early = session.stops_early();
  if (session.mesh().world().rank() != 0 || results.steps == 0) return;
  results.best_folder = best_model.place();
  files.write(config.output_dir + "/train_results.json", results_json(results));
  say("{}", results_text(results));
}

ExitCode train(Config config, Communicator& world, const ReportSignal& signal, Preemption& preemption,
               RankStatus& status, StartClock clock, const LearnRates& learn_rates) {
  fail_together(world, [&] {
    resolve_world(config, world.size());
    check_data_files(config);
    complete_masking(config);
  });
  check_ranks_agree(config, world);
  agree_on_threads(config, world);
  agree_on_spare_cores(config, world);
  const std::unique_ptr<BusyCores> cores = watch_cores(config, world);
  check_device_models_agree(read_device_model(config.device.model), world);
  if (learn_rates) learn_rates(config, world);
  check_inputs_agree(config, world);
  on_first_rank(world, [&] { check_companions(config); });
  clock.lap(StartPart::kConfiguration);
  OpenedData data = count_epochs(config, world);
  clock.lap(StartPart::kData);
  if (config.training.max_steps == 0) check_nothing_to_resume(config, world);
  std::unique_ptr<OutputFolder> folder;
  if (world.rank() == 0) folder = std::make_unique<OutputFolder>(config);
  SnapshotLock lock(config, world);

  const std::string recorded = recorded_line(config);  // reads code, which is resident from now on
  Resumed resumed;
  const Session::Restore restore = [&](const TrainingState& state) {
    resumed = resume_training(config, state, world);
    return resumed.folder.empty() ? std::nullopt : std::optional(resumed.progress);
  };
  Session session(config, world, {}, restore, std::move(data), clock);
  clock = session.start_clock();
  check_classes(resumed, config, session);
  on_first_rank(world, [&] { check_base(resumed, config); });
  check_plans_agree(session.training_program().checkpointed.plan,
                    session.training_program().checkpointed.moves, world);
  // `recorded` is the first line of files that other runs may use as input.
  const std::string resolved = recorded + dump_resolved(config),
                    plan = recorded + to_yaml(session.training_program().checkpointed.plan);
  if (folder) folder->take(planned_files(config, session, resolved.size() + plan.size()));
  if (folder && folder->has_moved()) resumed.replaced.clear();
  ModelSave model(config, session);
  BestModel best_model(config, session);
  std::unique_ptr<Progress> progress;
  std::optional<Snapshots> snapshots;
  if (config.saves_snapshots() && config.training.max_steps > 0) {
    lock.make();
    const auto before_begin = [&lock] { lock.check(); };
    const auto before_commit = [&progress, &lock] {
      if (progress) progress->flush_metrics();
      lock.check();
    };
    snapshots.emplace(config, session, before_commit, resumed.folder, before_begin);
  }
  if (folder) folder->begin(resolved, plan);  // from here on nothing can be refused
  clock.lap(StartPart::kRest);
  const RunStart begun = start_of(config, session, clock.times());
  world.barrier();  // no rank trains before all can
  status.begin();
  ReportFiles files(config);
  const std::string memory = memory_line(session);
  if (folder) {
    for (const std::string& sentence : config.given_way) warn("{}", sentence);
    if (const std::string budget = said_of_budget(config); !budget.empty()) warn("{}", budget);
    say("{}", opening_text(config, session, memory));
    if (const int64_t samples = session.samples(); samples > 0)
      say("data: {} samples; {} steps are {:.3g} epochs\n", samples, config.training.max_steps,
          static_cast<double>(config.training.max_steps * config.training.global_batch_size) /
              static_cast<double>(samples));
    if (!session.mixture().empty()) say("mixture: {}\n", session.mixture());
    if (!session.packing().empty()) say("packing: {}\n", session.packing());
    for (const std::string& wrong : resumed.passed_over) warn("a newer snapshot is passed over: {}", wrong);
    if (!resumed.folder.empty())
      say("resumed from {} after step {}\n", resumed.folder, resumed.progress.step);
    if (!resumed.replaced.empty())
      warn("{} has snapshots of later steps, which the first one of this run replaces: {}",
           config.snapshot_folder(), list_some(resumed.replaced));
    if (!resumed.ignored_files.empty())
      warn("{} has files that its manifest does not name; they are ignored: {}", resumed.folder,
           list_some(resumed.ignored_files));
    if (!resumed.changed.empty())
      warn("changed since the snapshot was saved, so that results will be others: {}", resumed.changed);
    if (const std::string remark = remark_on_bytes(config); !remark.empty()) warn("{}", remark);
    for (const std::string& remark : session.data_remarks()) warn("{}", remark);
    for (const Remark& remark : recorded_elsewhere(config)) warn("{}", remark.sentence);
    if (!session.drawn().empty())
      warn("not in model.pretrained, and drawn at random: {}", fmt::join(session.drawn(), ", "));
    progress =
        std::make_unique<Progress>(config, session.programs().needs().arena_bytes(), session.progress().step);
  }
  // A run that is started again after its last step may still have to save its model, but its reports stay
  // those of the attempt that trained.
  const bool trains = !session.is_done() || config.training.max_steps == 0;
  if (folder && !trains)
    say("step {} of {} is done: nothing is left to train\n", session.progress().step,
        config.training.max_steps);
  if (trains && reports_at(config, "start")) {
    RankReport report = predict(config, session.mesh(), session.training_program(),
                                session.executor().program(), session.programs().needs());
    report.start = begun;
    report.resident = session.measurements().programs.resident();
    report_together(config, report, world, files);
  }
  TrainResults results;
  clock.lap(StartPart::kRest);
  results.start = clock.times();
  Snapshots* const saved = snapshots ? &*snapshots : nullptr;
  if (const int by = run_steps(config, session, progress.get(), best_model, saved, signal, preemption,
                               status.log(), results, begun, files, cores.get())) {
    say_preempted(config, session, saved, by);
    return ExitCode::kPreempted;
  }
  say_stopped(config, session);
  session.check_trained();
  if (progress) progress->complete();
  std::optional<Error> moved;  // the output folder was renamed: write nothing to its name
  try {
    on_first_rank(world, [&] { folder->check_place(); });
  } catch (const Error& error) {
    if (error.code() != ExitCode::kStorage || !config.checkpoint.save_model) throw;
    moved = error;
  }
  model.save(moved);
  if (trains && !moved && reports_at(config, "end")) {
    const RankReport report = report_of(config, session.measurements(), begun);
    report_together(config, report, world, files);
    results.step = report.step;
    results.report = reports_left(config);
  }
  if (!moved) report_results(config, session, best_model, results, files);
  model.check_place();
  if (saved) saved->check_saved();
  best_model.check_saved();
  world.barrier();  // no rank ends while another may still need it
  if (folder && !moved) {
    model.merge();
    model.save_base();
  }
  if (folder) folder->leave();
  return ExitCode::kOk;
}

}  // namespace

ExitCode train_rank(Config config, Communicator& world, const ReportSignal& signal, Preemption& preemption,
                    RankWatch& ranks, StartClock clock, const LearnRates& learn_rates) {
  RankStatus status(world, config.output_dir);
  ranks.add(status);
  const auto failed = [&](ExitCode code, const std::string& what, bool all_know = false) {
    ranks.remove(status, code, what);
    if (!all_know) world.abort(what.substr(0, what.find('\n')));
    status.write(code, what);
  };
  try {
    const ExitCode code = train(config, world, signal, preemption, status, clock, learn_rates);
    ranks.remove(status, ExitCode::kOk, "");
    return code;
  } catch (const SharedError& error) {
    // An abort would stop ranks that still wait for the message of a third rank.
    failed(error.code(), error.what(), true);
    throw;
  } catch (const Error& error) {
    failed(error.code(), error.what());
    throw;
  } catch (const std::bad_alloc&) {
    failed(ExitCode::kHostMemory, "out of host memory");
    throw;
  } catch (const std::exception& error) {
    failed(ExitCode::kInternal, error.what());
    throw;
  }
}

}  // namespace recollect
