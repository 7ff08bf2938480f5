#include "launch/cli/profile_command.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "checkpointing/device_file.h"
#include "comm/agree.h"
#include "engine/core/printable.h"
#include "engine/io/json.h"
#include "engine/io/output_file.h"
#include "launch/config/masking.h"
#include "launch/config/validate.h"
#include "launch/doctor/machine_rates.h"
#include "launch/doctor/measure_gpu.h"
#include "launch/ranks/inputs.h"
#include "launch/ranks/world.h"
#include "launch/report/html_page.h"
#include "launch/report/profile.h"
#include "launch/report/rank_report_json.h"
#include "launch/report/report_command.h"
#include "launch/report/run_folder.h"
#include "launch/train/profile_session.h"

namespace recollect {

namespace {

// Where no number of steps is given: times are steady by then, and of a GPU, whose step is replayed as a whole otherwise,
// most steps are such.
constexpr const char *kSteps = "8", *kStepsOfGpu = "24";
constexpr int64_t kRecorded = 5;  // of which the medians are shown

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

// What a GPU does at most, measured before memory is reserved by the first rank, where no file of `calibrate` says it.
Roof roof_of_gpu(const Config& config, Communicator& world) {
  Roof roof;
  if (config.device.backend != BackendKind::kCuda || !is_preset(read_device_model(config.device.model)))
    return roof;
  if (world.rank() == 0) {
    const GpuRoof measured = measure_gpu_roof(
        config.training.precision == Precision::kFP32 ? DType::kF32 : DType::kBF16, config.device.tf32);
    roof = {.flops = measured.flops, .bandwidth = measured.bandwidth};
  }
  world.barrier();
  return roof;
}

void profile_rank(Config config, Communicator& world, const Wanted& wanted) {
  fail_together(world, [&] {
    resolve_world(config, world.size());
    check_data_files(config);
    complete_masking(config);
  });
  agree_on_threads(config, world);
  agree_on_spare_cores(config, world);
  learn_machine_rates(config, world);
  OpenedData data = count_epochs(config, world);
  const Roof roof = roof_of_gpu(config, world);
  Session session(config, world, {}, {}, std::move(data));
  std::vector<RankReport> ranks = gather_reports(profile_session(config, session, kRecorded), world);
  if (world.rank() != 0) return;
  if (roof.flops > 0)
    for (RankReport& report : ranks) report.timeline.roof = roof;
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
  if (!rest.empty() && given == rest.end()) {
    const bool gpu = read_config_words("profile", rest).device.backend == BackendKind::kCuda;
    for (const char* key : {"training.max_steps=", "profiling.step="})
      rest.push_back(std::string(key) + (gpu ? kStepsOfGpu : kSteps));
  }
  const Config config = read_config_words("profile", rest);
  if (config.training.max_steps == 0 || config.profiling.step == 0)
    throw Error(ExitCode::kConfiguration,
                "training.max_steps or profiling.step is 0: there is no step to look at");
  check_report_files(wanted.html, "");
  run_ranks(config, mpi, [&](Communicator& world) { profile_rank(config, world, wanted); });
}

}  // namespace recollect
