#include "launch/report/profile.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "engine/io/json.h"

namespace recollect {

namespace {

constexpr std::size_t kShown = 10;

void add_run(const Timeline::Op& op, double seconds, double alike, const Roof& roof, ProfileRow& row) {
  const double flops = alike * static_cast<double>(op.flops), bytes = alike * static_cast<double>(op.touched);
  row.runs += static_cast<int64_t>(alike);
  row.seconds += alike * seconds;
  row.flops += flops;
  row.bytes += bytes;
  row.least += roof.seconds(flops, bytes);
}

// The unit in which rates are printed; GPUs have another than processors.
struct RateUnit {
  double flops = 1e-9;
  const char* name = "GFLOP/s";
};

RateUnit unit_of(const Profile& profile) {
  for (const ProfileRow& row : profile.classes)
    if (row.flops > 1e13 * row.seconds) return {1e-12, "TFLOP/s"};
  return {};
}

std::string rates(const ProfileRow& row, const RateUnit& unit) {
  if (row.seconds <= 0) return fmt::format("{:>10}{:>9}{:>9}", "-", "-", "-");
  const std::string roof = row.least > 0 ? fmt::format("{:.0f} %", 100 * row.least / row.seconds) : "-";
  return fmt::format("{:>10.1f}{:>9.1f}{:>9}", unit.flops * row.flops / row.seconds,
                     1e-9 * row.bytes / row.seconds, roof);
}

nlohmann::ordered_json row_json(const ProfileRow& row) {
  return {{"class", name_of(row.is)}, {"runs", row.runs},     {"seconds", row.seconds},
          {"flops", row.flops},       {"touched", row.bytes}, {"at_the_roof", row.least}};
}

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string classes_text(const Profile& profile) {
  const RateUnit unit = unit_of(profile);
  std::string text = fmt::format("{:<24}{:>6}{:>12}{:>8}{:>10}{:>9}{:>9}\n", "class", "runs", "ms a step",
                                 "%", unit.name, "GB/s", "roofline");
  for (std::size_t i = 0; i < profile.classes.size(); ++i) {
    const ProfileRow& row = profile.classes[i];
    if (row.runs == 0) continue;
    text += fmt::format("{:<24}{:>6}{:>12.3f}{:>8.1f}{}\n", name_of(static_cast<OpClass>(i)), row.runs,
                        1e3 * row.seconds, share(row.seconds, profile.step), rates(row, unit));
  }
  for (const auto& [name, seconds] :
       {std::pair{"waits for other streams", profile.waiting}, std::pair{"between ops", profile.between()}})
    text += fmt::format("{:<24}{:>18.3f}{:>8.1f}\n", name, 1e3 * seconds, share(seconds, profile.step));
  text += fmt::format("{:<24}{:>18.3f}\n", "step", 1e3 * profile.step);
  if (profile.not_timed > 0)
    text += fmt::format("{:<24}{:>18.3f}\n{:<24}{:>18.3f}\n", "step, ops not timed", 1e3 * profile.not_timed,
                        "launching and timing", 1e3 * profile.launching());
  if (profile.beside > 0)
    text += fmt::format("{:<24}{:>18.3f}\n", "beside, other streams", 1e3 * profile.beside);
  return text;
}

}  // namespace

double Profile::launching() const { return not_timed > 0 ? std::max(0.0, step - not_timed) : 0; }

double Profile::between() const {
  double sum = waiting;
  for (const ProfileRow& row : classes) sum += row.seconds;
  return std::max(0.0, step - sum);
}

namespace {

// The time of a step: the measured time if every run was recorded; otherwise each recorded run also counts
// for the runs that it represents.
double step_seconds(const StepTimeline& times) {
  int64_t runs = 0;
  bool whole = true;
  for (const StepTimeline::Run& run : times.runs) {
    const int64_t alike = times.stands_for(run);
    runs += alike * (run.end - run.begin);
    whole = whole && alike == 1;
  }
  return 1e-9 * static_cast<double>(whole ? times.end : runs);
}

}  // namespace

Profile make_profile(const Timeline& timeline) {
  const StepTimeline& times = timeline.measured ? *timeline.measured : timeline.predicted;
  Profile profile{.step = step_seconds(times),
                  .kinds = {},
                  .classes = {},
                  .recorded = timeline.recorded,
                  .not_timed = timeline.not_timed};
  for (std::size_t i = 0; i < profile.classes.size(); ++i) profile.classes[i].is = static_cast<OpClass>(i);
  std::map<std::pair<Phase, std::string>, ProfileRow> rows;
  for (const StepTimeline::Run& run : times.runs) {
    const auto alike = static_cast<double>(times.stands_for(run));
    for (std::size_t i = 0; i < run.ops.size(); ++i) {
      const OpTime& time = run.ops[i];
      if (!time.ran()) continue;
      const Timeline::Op& op = timeline.ops[run.first + i];
      const double seconds = 1e-9 * static_cast<double>(time.end - time.begin);
      if (op.stream != StreamId::kCompute) {
        profile.beside += alike * seconds;
        continue;
      }
      ProfileRow& row = rows[{op.phase, op.kind}];
      row.kind = op.kind, row.phase = op.phase, row.is = op.is;
      add_run(op, seconds, alike, timeline.roof, row);
      add_run(op, seconds, alike, timeline.roof, profile.classes[static_cast<std::size_t>(op.is)]);
    }
  }
  profile.waiting = exposed_waits(timeline.ops, times).total();
  for (auto& [key, row] : rows) profile.kinds.push_back(std::move(row));
  std::stable_sort(profile.kinds.begin(), profile.kinds.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
  return profile;
}

std::string classes_line(const Profile& profile) {
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& row : profile.classes)
    if (row.runs > 0) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow* a, const ProfileRow* b) { return a->seconds > b->seconds; });
  std::string text = "where the time of a step went:";
  for (const ProfileRow* row : rows)
    text += fmt::format(" {} {:.1f} %,", name_of(row->is), share(row->seconds, profile.step));
  return text + fmt::format(" waits and between ops {:.1f} %\n",
                            share(profile.waiting + profile.between(), profile.step));
}

nlohmann::ordered_json profile_json(const Profile& profile) {
  nlohmann::ordered_json json{{"step", profile.step},
                              {"waiting_for_streams", profile.waiting},
                              {"between_ops", profile.between()},
                              {"on_other_streams", profile.beside},
                              {"classes", nlohmann::ordered_json::array()},
                              {"kinds", nlohmann::ordered_json::array()}};
  json["recorded_steps"] = profile.recorded;
  if (profile.not_timed > 0) {
    json["step_not_timed"] = profile.not_timed;
    json["launching_and_timing"] = profile.launching();
  }
  for (const ProfileRow& row : profile.classes)
    if (row.runs > 0) json["classes"].push_back(row_json(row));
  for (const ProfileRow& row : profile.kinds) {
    nlohmann::ordered_json kind{{"kind", row.kind}, {"phase", name_of(row.phase)}};
    kind.update(row_json(row));
    json["kinds"].push_back(std::move(kind));
  }
  return json;
}

std::string profile_text(const Timeline& timeline) {
  const Profile profile = make_profile(timeline);
  const bool roof = timeline.roof.flops > 0;
  const RateUnit unit = unit_of(profile);
  std::string text = "a step, predicted:\n";
  if (timeline.measured)
    text = timeline.recorded > 1 ? fmt::format("steps {} to {}, measured, medians:\n",
                                               timeline.step - timeline.recorded + 1, timeline.step)
                                 : fmt::format("step {}, measured:\n", timeline.step);
  text += classes_text(profile);
  text +=
      roof ? fmt::format("roofline: {:.1f} {} of matrix products, {:.1f} GB/s of memory; caches give more\n",
                         unit.flops * timeline.roof.flops, unit.name, 1e-9 * timeline.roof.bandwidth)
           : "roofline: not measured on this machine; `recollect calibrate --out device.yaml` measures "
             "it, for "
             "device.model=device.yaml\n";
  std::vector<ProfileRow> most = profile.kinds;
  if (roof)
    std::stable_sort(most.begin(), most.end(),
                     [](const ProfileRow& a, const ProfileRow& b) { return a.lost() > b.lost(); });
  most.resize(std::min(most.size(), kShown));
  text += fmt::format("{:<10}{:<26}{:>6}{:>12}{:>12}{:>10}{:>9}{:>9}\n", "phase",
                      roof ? "op, by time lost" : "op, by time", "runs", "ms a step", roof ? "ms lost" : "",
                      unit.name, "GB/s", "roofline");
  for (const ProfileRow& row : most)
    text +=
        fmt::format("{:<10}{:<26}{:>6}{:>12.3f}{:>12}{}\n", name_of(row.phase), row.kind, row.runs,
                    1e3 * row.seconds, roof ? fmt::format("{:.3f}", 1e3 * row.lost()) : "", rates(row, unit));
  return text;
}

}  // namespace recollect
