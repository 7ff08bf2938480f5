#include "launch/train/adaptation.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "checkpointing/measured_times.h"
#include "checkpointing/simulator.h"
#include "comm/agree.h"
#include "engine/core/duration.h"

namespace recollect {

namespace {

StepTimeline simulated(const ReadyProgram& ready, int64_t micro_batches) {
  StepTimeline timeline;
  const Program& program = ready.executor->program();
  simulate(program.graph, program.schedule, ready.training.device, micro_batches, &timeline);
  return timeline;
}

double seconds_of(const StepTimeline::Run& run) { return 1e-9 * static_cast<double>(run.end - run.begin); }

}  // namespace

Adaptation::Adaptation(Config& config, const Mesh& mesh, ProgramCache& programs)
    : config_(config), mesh_(mesh), programs_(programs) {}

const Adaptation::Predicted& Adaptation::predicted(const ReadyProgram& ready) {
  const auto [entry, unknown] = known_.try_emplace(&ready);
  if (!unknown) return entry->second;
  const int64_t count = config_.training.gradient_accumulation_steps;
  const StepTimeline step = simulated(ready, count);
  for (const StepTimeline::Run& run : step.runs)
    if (run.micro_batch == StepTimeline::kOptimizer)
      entry->second.optimizer = seconds_of(run);
    else
      entry->second.micro_batch +=
          seconds_of(run) * static_cast<double>(step.stands_for(run)) / static_cast<double>(count);
  return entry->second;
}

void Adaptation::ran(const ReadyProgram& ready) {
  if (!report_.empty()) return;
  if (predicted_ == 0) first_ = &ready;
  const Predicted& seconds = predicted(ready);
  predicted_ += seconds.micro_batch;
  optimizer_ = seconds.optimizer;
}

void Adaptation::end_step(double seconds) {
  if (!report_.empty()) return;
  predictions_.add(predicted_ + optimizer_);
  ratios_.add(seconds / (predicted_ + optimizer_));
  predicted_ = 0;
}

bool Adaptation::records_after(int64_t steps) const {
  return steps + 1 == config_.activation_checkpointing.replan_after;
}

bool Adaptation::is_due_after(int64_t steps) const {
  return steps == config_.activation_checkpointing.replan_after;
}

std::string Adaptation::findings() {
  const double predicted = predictions_.mean();
  const MeasuredTimes times = measured_times(first_->executor->program().graph, first_->training.device,
                                             simulated(*first_, config_.training.gradient_accumulation_steps),
                                             programs_.recorder()->timeline());
  std::string text = fmt::format("{} {} {}", predicted, predicted * ratios_.median(), times.launch_overhead);
  for (const auto& [kind, multiple] : times.multiples) text += fmt::format("\n{} {}", multiple, kind);
  return text;
}

bool Adaptation::replan() {
  const int64_t steps = config_.activation_checkpointing.replan_after;
  Communicator& world = mesh_.world();
  std::istringstream text(broadcast_text(world.rank() == 0 ? findings() : "", 0, world));
  double predicted = 0, measured = 0;
  MeasuredTimes times;
  text >> predicted >> measured >> times.launch_overhead;
  known_.clear();
  report_ = fmt::format("after {} {} predicted to take {}, measured {} (median)", steps,
                        steps == 1 ? "step" : "steps", duration_text(predicted), duration_text(measured));
  if (std::abs(predicted - measured) <= kTolerance * measured) {
    report_ += fmt::format(": within {:.0f} %, and the plan stays", 100 * kTolerance);
    return false;
  }
  double multiple = 0;
  for (std::string kind; text >> multiple && std::getline(text >> std::ws, kind);)
    times.multiples[kind] = multiple;
  config_.device.measured =
      std::make_shared<const DeviceModel>(with_measured_times(device_of(config_), times));
  const auto start = std::chrono::steady_clock::now();
  const Replanned now = programs_.replan();
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report_ += fmt::format(
      ": planned again in {} with what ops were measured to take, by which a step of {} tokens a sequence "
      "takes {}; ",
      duration_text(took), config_.data.sequence_length, duration_text(now.seconds_before));
  report_ += now.changed
                 ? fmt::format("{} of {} values were saved and {} are now, predicted {}", now.saved_before,
                               now.values, now.saved_now, duration_text(now.seconds_now))
                 : fmt::format("no plan within what is reserved is faster, and {} of {} values stay saved",
                               now.saved_before, now.values);
  return true;
}

}  // namespace recollect
