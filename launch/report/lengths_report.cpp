#include "launch/report/lengths_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "checkpointing/simulator.h"
#include "launch/program/units.h"

namespace recollect {

namespace {

constexpr std::size_t kMostLines = 12;

// Predicted seconds of a micro-batch in a step of `micro_batches`.
double predicted_micro_batch(const Program& program, const DeviceModel& device, int64_t micro_batches) {
  StepTimeline step;
  simulate(program.graph, program.schedule, device, micro_batches, &step);
  double seconds = 0;
  for (const StepTimeline::Run& run : step.runs)
    if (run.micro_batch != StepTimeline::kOptimizer)
      seconds += 1e-9 * static_cast<double>((run.end - run.begin) * step.stands_for(run));
  return seconds / static_cast<double>(micro_batches);
}

double total_seconds(const LengthReport& r) { return r.measured * static_cast<double>(r.micro_batches); }

}  // namespace

std::vector<LengthReport> report_lengths(const ProgramCache& programs, const DeviceModel& device,
                                         int64_t micro_batches_of_step) {
  std::vector<LengthReport> lengths;
  for (const auto& [shape, ready] : programs.all()) {
    if (ready.micro_batches == 0) continue;
    const Program& program = ready.executor->program();
    lengths.push_back({.length = shape.sequence_length,
                       .micro_batches = ready.micro_batches,
                       .predicted = predicted_micro_batch(program, device, micro_batches_of_step),
                       .measured = ready.seconds / static_cast<double>(ready.micro_batches),
                       .predicted_bytes = program.predicted().transient_bytes,
                       .measured_bytes = ready.executor->measured().transient_bytes});
  }
  return lengths;
}

double predicted_step(const std::vector<LengthReport>& lengths, int64_t steps, double optimizer) {
  double seconds = 0;
  for (const LengthReport& r : lengths) seconds += r.predicted * static_cast<double>(r.micro_batches);
  return seconds / static_cast<double>(steps) + optimizer;
}

std::string lengths_text(const std::vector<LengthReport>& lengths) {
  if (lengths.size() < 2) return {};
  std::vector<LengthReport> shown = lengths;
  std::stable_sort(shown.begin(), shown.end(), [](const LengthReport& a, const LengthReport& b) {
    return total_seconds(a) > total_seconds(b);
  });
  shown.resize(std::min(shown.size(), kMostLines));
  std::sort(shown.begin(), shown.end(),
            [](const LengthReport& a, const LengthReport& b) { return a.length < b.length; });
  const ByteUnit& unit = unit_for(lengths.back().predicted_bytes);
  std::string text = fmt::format("{} lengths of sequences", lengths.size());
  if (shown.size() < lengths.size()) text += fmt::format(", the {} that took most time", shown.size());
  text +=
      fmt::format(":\n  length  micro-batches  ms each  predicted  transient, {}  predicted\n", unit.name);
  for (const LengthReport& r : shown)
    text += fmt::format("  {:>6}  {:>13}  {:>7.3f}  {:>9.3f}  {:>14}  {:>9}\n", r.length, r.micro_batches,
                        1e3 * r.measured, 1e3 * r.predicted, unit(r.measured_bytes), unit(r.predicted_bytes));
  return text;
}

}  // namespace recollect
