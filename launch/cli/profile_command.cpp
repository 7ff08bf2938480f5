#include "launch/cli/profile_command.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "comm/agree.h"
#include "engine/core/printable.h"
#include "engine/io/json.h"
#include "engine/io/output_file.h"
#include "launch/config/masking.h"
#include "launch/config/validate.h"
#include "launch/ranks/inputs.h"
#include "launch/ranks/world.h"
#include "launch/report/html_page.h"
#include "launch/report/profile.h"
#include "launch/report/rank_report_json.h"
#include "launch/report/report_command.h"
#include "launch/report/run_folder.h"
#include "launch/train/session.h"

namespace recollect {

namespace {

constexpr const char* kSteps = "8";  // where none are given: times are steady by then

struct Wanted {
  std::string html;
  bool json = false;

  OptionTable options();
};

OptionTable Wanted::options() {
  namespace po = boost::program_options;
  OptionTable table = key_options();
  table.add_options()("html", po::value(&html)->value_name("FILE"),
                      "the page, with every op as a dot below what the machine can do")(
      "json", po::bool_switch(&json), "the numbers as JSON");
  return table;
}

std::string report_text(const std::vector<RankReport>& ranks) {
  const RankReport& first = ranks.front();
  std::string text = fmt::format("{}; {}\nbatch: {}\n", first.run.model, first.run.layout, first.run.batch);
  text += fmt::format("rank {} of {}, {}", first.rank, first.ranks, profile_text(first.timeline));
  return text + step_text(first.step);
}

void profile_rank(Config config, Communicator& world, const Wanted& wanted) {
  fail_together(world, [&] {
    resolve_world(config, world.size());
    check_data_files(config);
    complete_masking(config);
  });
  agree_on_threads(config, world);
  agree_on_spare_cores(config, world);
  OpenedData data = count_epochs(config, world);
  Session session(config, world, {}, {}, std::move(data));
  for (int64_t step = 0; step < config.training.max_steps; ++step) session.step();
  const std::vector<RankReport> ranks = gather_reports(report_of(config, session.measurements()), world);
  if (world.rank() != 0) return;
  if (!ranks.front().timeline.measured)
    throw Error(ExitCode::kConfiguration,
                fmt::format("step {} was not recorded: programs with different plans ran in it",
                            config.profiling.step),
                "data.padding=max has one program");
  const std::vector<std::vector<RankReport>> run = {ranks};
  if (!wanted.html.empty()) write_text_file(wanted.html, html_page(run));
  if (wanted.json)
    fmt::print("{}\n", profile_json(make_profile(ranks.front().timeline)).dump(2));
  else
    fmt::print("{}", report_text(ranks));
  if (!wanted.html.empty() && !wanted.json) fmt::print("wrote {}\n", printable(wanted.html));
}

}  // namespace

OptionTable profile_options() { return Wanted().options(); }

void profile_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) {
  Wanted wanted;
  Words rest = parse_options(words, wanted.options());
  const auto given = std::find_if(rest.begin(), rest.end(), [](const std::string& word) {
    return word.starts_with("training.max_steps=") || word.starts_with("training.epochs=") ||
           word.starts_with("profiling.step=");
  });
  if (!rest.empty() && given == rest.end())
    rest.insert(rest.end(),
                {std::string("training.max_steps=") + kSteps, std::string("profiling.step=") + kSteps});
  const Config config = read_config_words("profile", rest);
  if (config.device.backend == BackendKind::kCuda)
    throw Error(ExitCode::kConfiguration, "device.backend cuda: no op of a CUDA device's step is timed",
                "Nsight Systems shows them: nsys profile recollect train ...");
  if (config.training.max_steps == 0 || config.profiling.step == 0)
    throw Error(ExitCode::kConfiguration,
                "training.max_steps or profiling.step is 0: there is no step to look at");
  check_report_files(wanted.html, "");
  run_ranks(config, mpi, [&](Communicator& world) { profile_rank(config, world, wanted); });
}

}  // namespace recollect
