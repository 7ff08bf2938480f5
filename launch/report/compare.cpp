#include "launch/report/compare.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/duration.h"
#include "launch/program/units.h"

namespace recollect {

namespace {

const MemoryLedger& best_known(const RankReport& report) {
  return report.measured ? *report.measured : report.predicted;
}

int64_t less(uint64_t b, uint64_t a) { return static_cast<int64_t>(b) - static_cast<int64_t>(a); }

// Measured times if both runs have them, else predicted ones, so that both numbers are of one kind.
struct Times {
  bool measured = false;
  double step[2] = {}, exposed[2] = {};
  Times(const RankReport& a, const RankReport& b) : measured(a.step.steps > 0 && b.step.steps > 0) {
    for (int i = 0; i < 2; ++i) {
      const StepReport& s = (i == 0 ? a : b).step;
      step[i] = measured ? s.measured : s.predicted;
      exposed[i] = (measured ? s.measured_exposed : s.predicted_exposed).total();
    }
  }
};

std::string head_text(const char* name, const RankReport& report) {
  return fmt::format("{}: {}, rank {} of {}\n   {}; {}; {}\n", name, report.run.name, report.rank,
                     report.ranks, report.run.model, report.run.layout, report.run.checkpointing);
}

std::string three_bytes(const ByteUnit& unit, uint64_t a, uint64_t b) {
  const int64_t difference = less(b, a);
  const std::string sign = difference > 0 ? "+" : difference < 0 ? "-" : "";
  return fmt::format("{:>{w}}{:>{w}}{:>{w}}", unit(a), unit(b),
                     sign + unit(static_cast<uint64_t>(std::abs(difference))), fmt::arg("w", kCellWidth));
}

std::string three_times(const char* name, const DurationUnit& unit, const double (&seconds)[2]) {
  return fmt::format("{:<{n}}{:>{w}.3f}{:>{w}.3f}{:>+{w}.3f}\n", fmt::format("{}, {}", name, unit.name),
                     unit(seconds[0]), unit(seconds[1]), unit(seconds[1] - seconds[0]),
                     fmt::arg("n", kNameWidth), fmt::arg("w", kCellWidth));
}

// The latest losses that both runs have.
std::string losses_text(const std::vector<TrainingCurves>& curves) {
  std::string text;
  if (curves.size() != 2) return text;
  for (const auto& [key, name] : {std::pair{"loss", "loss"}, {"eval_loss", "evaluation loss"}}) {
    const Curve *a = curves[0].find(key), *b = curves[1].find(key);
    if (!a || !b || a->points().empty() || b->points().empty()) continue;
    if (text.empty())
      text = fmt::format("{:<{}}{:>{}}{:>{}}{:>{}}\n", "", kNameWidth, "A", kCellWidth, "B", kCellWidth,
                         "B - A", kCellWidth);
    text += fmt::format("{:<{n}}{:>{w}.4f}{:>{w}.4f}{:>+{w}.4f}\n", name, a->last(), b->last(),
                        b->last() - a->last(), fmt::arg("n", kNameWidth), fmt::arg("w", kCellWidth));
  }
  if (text.empty()) return text;
  return text + fmt::format("{:<{n}}{:>{w}}{:>{w}}\n", "of step", curves[0].step(), curves[1].step(),
                            fmt::arg("n", kNameWidth), fmt::arg("w", kCellWidth));
}

}  // namespace

const RankReport& fullest(const std::vector<RankReport>& run) {
  return *std::max_element(run.begin(), run.end(), [](const RankReport& a, const RankReport& b) {
    return best_known(a).peak() < best_known(b).peak();
  });
}

std::string comparison_text(const std::vector<RankReport>& run_a, const std::vector<RankReport>& run_b,
                            const std::vector<TrainingCurves>& curves) {
  const RankReport &a = fullest(run_a), &b = fullest(run_b);
  const MemoryLedger &of_a = best_known(a), &of_b = best_known(b);
  const ByteUnit& unit =
      unit_for(std::max({of_a.arena_bytes(), of_b.arena_bytes(), of_a.host_bytes, of_b.host_bytes}));
  std::string text = head_text("A", a) + head_text("B", b) + losses_text(curves);
  text += fmt::format("{:<{}}", fmt::format("memory, {}", unit.name), kNameWidth);
  for (int p = 0; p < kPhaseCount; ++p)
    text += fmt::format("{:>{}}", name_of(static_cast<Phase>(p)), 3 * kCellWidth);
  text += fmt::format("\n{:<{}}", "", kNameWidth);
  for (int p = 0; p < kPhaseCount; ++p)
    for (const char* name : {"A", "B", "B - A"}) text += fmt::format("{:>{}}", name, kCellWidth);
  const auto row = [&](std::string_view name, const auto& bytes) {
    text += fmt::format("\n{:<{}}", name, kNameWidth);
    for (int p = 0; p < kPhaseCount; ++p) text += three_bytes(unit, bytes(of_a, p), bytes(of_b, p));
  };
  for (int c = 0; c < kStepCategoryCount; ++c)
    row(name_of(static_cast<Category>(c)), [c](const MemoryLedger& l, int p) { return l.at_peak[p][c]; });
  row("arena peak", [](const MemoryLedger& l, int p) { return MemoryLedger::sum(l.at_peak[p]); });
  text += '\n';
  const auto line = [&](const char* name, uint64_t bytes_a, uint64_t bytes_b) {
    text += fmt::format("{:<{}}{}\n", name, kNameWidth, three_bytes(unit, bytes_a, bytes_b));
  };
  line("arena", of_a.arena_bytes(), of_b.arena_bytes());
  line("host arena", of_a.host_bytes, of_b.host_bytes);
  line("disk", of_a.disk_bytes, of_b.disk_bytes);
  if (of_a.disk_state_bytes > 0 || of_b.disk_state_bytes > 0)
    line("disk, states", of_a.disk_state_bytes, of_b.disk_state_bytes);
  const Times times(a, b);
  const DurationUnit& time = duration_unit_for(std::max(times.step[0], times.step[1]));
  text += three_times(times.measured ? "step" : "step predicted", time, times.step);
  return text + three_times("exposed waits", time, times.exposed);
}

nlohmann::ordered_json comparison_json(const std::vector<RankReport>& run_a,
                                       const std::vector<RankReport>& run_b) {
  const RankReport &a = fullest(run_a), &b = fullest(run_b);
  const MemoryLedger &of_a = best_known(a), &of_b = best_known(b);
  const Times times(a, b);
  nlohmann::ordered_json json{{"unit", "bytes, seconds"},
                              {"ranks", {a.rank, b.rank}},
                              {"times", times.measured ? "measured" : "predicted"}};
  for (int p = 0; p < kPhaseCount; ++p) {
    nlohmann::ordered_json& phase = json[std::string(name_of(static_cast<Phase>(p)))];
    for (int c = 0; c < kStepCategoryCount; ++c)
      phase[std::string(name_of(static_cast<Category>(c)))] = less(of_b.at_peak[p][c], of_a.at_peak[p][c]);
    phase["total"] = less(MemoryLedger::sum(of_b.at_peak[p]), MemoryLedger::sum(of_a.at_peak[p]));
  }
  json["arena"] = less(of_b.arena_bytes(), of_a.arena_bytes());
  json["host_arena"] = less(of_b.host_bytes, of_a.host_bytes);
  json["disk"] = less(of_b.disk_bytes, of_a.disk_bytes);
  json["disk_states"] = less(of_b.disk_state_bytes, of_a.disk_state_bytes);
  json["step"] = times.step[1] - times.step[0];
  json["exposed"] = times.exposed[1] - times.exposed[0];
  return json;
}

}  // namespace recollect
