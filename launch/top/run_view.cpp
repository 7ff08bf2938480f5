#include "launch/top/run_view.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/core/error.h"
#include "engine/io/node.h"
#include "launch/report/run_folder.h"

namespace recollect {

namespace {

std::string all_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Bytes of the line "VmRSS: 1234 kB"; 0 if there is no such process.
uint64_t resident_of(int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  constexpr std::string_view kKey = "VmRSS:";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kKey)) return std::strtoull(line.c_str() + kKey.size(), nullptr, 10) << 10;
  return 0;
}

}  // namespace

const RunView& RunWatcher::look() {
  metrics_.read();
  view_.name = folder_;
  view_.now = std::time(nullptr);
  view_.state = stage_of_run(folder_);
  view_.failure = view_.state == RunStage::kGoesOn ? "" : failure_in(folder_);
  view_.curves = &metrics_.curves();
  const bool ended = view_.state != RunStage::kGoesOn;
  if (view_.model.empty() || ended != has_ended_) read_reports();
  has_ended_ = ended;
  read_ranks();
  view_.step = metrics_.curves().step();
  for (const RankView& rank : view_.ranks)
    if (rank.live) {
      view_.step = std::max(view_.step, rank.live->step);
      view_.max_steps = std::max(view_.max_steps, rank.live->max_steps);
    }
  return view_;
}

// Reads the reports that the run wrote at its start or at its end.
void RunWatcher::read_reports() {
  try {
    const std::vector<RankReport> reports = read_run(folder_);
    view_.model = reports.front().run.model;
    view_.layout = reports.front().run.layout;
    view_.max_steps = reports.front().max_steps;
    view_.ranks.resize(reports.size());
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const StepReport& step = reports[i].step;
      view_.ranks[i].peak = (reports[i].measured ? *reports[i].measured : reports[i].predicted).peak();
      if (step.steps > 0)
        view_.ranks[i].step = {step.mean, step.waiting_on_any_stream(), step.measured_exposed.total()};
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInput) throw;
  }
}

void RunWatcher::read_ranks() {
  std::size_t ranks = std::max<std::size_t>(1, view_.ranks.size());
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto live = read_live_rank(all_of_file(live_rank_path(folder_, static_cast<int>(i))));
    if (live) ranks = std::max(ranks, static_cast<std::size_t>(live->ranks));
    if (view_.ranks.size() < ranks) view_.ranks.resize(ranks);
    RankView& rank = view_.ranks[i];
    rank.rank = static_cast<int>(i);
    if (live || view_.state != RunStage::kGoesOn) rank.live = live;  // else: half written, read again
    if (rank.live) rank.step = {rank.live->step_seconds, rank.live->waiting, rank.live->exposed};
    const bool here = rank.live && rank.live->host == host_name();
    rank.resident = here ? resident_of(rank.live->process) : 0;
  }
}

}  // namespace recollect
