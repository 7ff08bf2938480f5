#include "launch/cli/estimate_command.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "engine/core/byte_count.h"
#include "engine/core/duration.h"
#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/io/standard_output.h"
#include "engine/io/system_files.h"
#include "launch/cli/estimate_budgets.h"
#include "launch/config/data_source.h"
#include "launch/config/machine_memory.h"
#include "launch/doctor/machine_rates.h"
#include "launch/program/compare_budgets.h"
#include "launch/program/estimate.h"
#include "launch/program/largest_run.h"
#include "launch/program/layer_choices.h"
#include "launch/program/limits.h"
#include "launch/program/memory_advice.h"
#include "launch/program/phase_table.h"
#include "launch/program/units.h"
#include "launch/report/budgets_chart.h"
#include "launch/report/chrome_trace.h"
#include "launch/report/html_page.h"
#include "launch/report/memory_table.h"
#include "launch/report/rank_report_json.h"
#include "launch/report/report_command.h"
#include "launch/train/count_lengths.h"

namespace recollect {

namespace {

using Json = nlohmann::ordered_json;

struct EstimateOptions {
  bool json = false, compare = false, policies = false, pareto = false;
  std::array<bool, kSpellings<RunSize>.size()> largest = {};
  std::string trace, html, lengths;

  OptionTable options();
  int questions() const {
    return compare + policies + pareto + static_cast<int>(std::count(largest.begin(), largest.end(), true));
  }
};

OptionTable EstimateOptions::options() {
  namespace po = boost::program_options;
  constexpr std::array<const char*, kSpellings<RunSize>.size()> kLargest = {
      "the largest training.micro_batch_size that fits device.memory_limit",
      "the largest data.sequence_length that fits it", "the most layers that fit it"};
  OptionTable table = key_options();
  table.add_options()("compare", po::bool_switch(&compare),
                      "every activation checkpointing mode and switch, as one table")(
      "policies", po::bool_switch(&policies), "a memory budget's policies, by the length of sequences")(
      "lengths", po::value(&lengths)->value_name("COUNTS"),
      "with --policies, how often micro-batches of a length come, as 64:120,128:40; data: counted in the "
      "data")("pareto", po::bool_switch(&pareto),
              "time against memory budget, for every mode; --html draws it");
  for (std::size_t i = 0; i < largest.size(); ++i)
    table.add_options()(fmt::format("max-{}", kSpellings<RunSize>[i]).c_str(), po::bool_switch(&largest[i]),
                        kLargest[i]);
  table.add_options()("trace", po::value(&trace)->value_name("FILE"),
                      "the predicted step as a Chrome trace, for Perfetto")(
      "html", po::value(&html)->value_name("FILE"), "the predicted step as a page")(
      "json", po::bool_switch(&json), "the same as JSON");
  return table;
}

std::string mib(uint64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); }

// What a run holds of its data in memory: an estimate does not open files, and counts none of it.
std::string unopened_data(const Config& config) {
  if (reads_texts(config)) return "without the samples that texts are made into: about 2 or 4 bytes a token";
  if (!reads(config, DataFormat::kJsonl)) return "";
  return fmt::format("without the index of the data: about {} bytes a line of JSONL",
                     config.data.packing == Packing::kWithin ? 8 : 4);
}

// A line for each way in which the ranks may talk; which it is, their launcher decides.
// What is neither in the device's arena nor in the host's.
std::string buffers_text(const Config& config, const Estimate& e) {
  const auto where = [&](CommunicatorKind kind) {
    if (e.communication_buffers.size() == 1) return "";
    if (kind == CommunicatorKind::kMpi) return ", if mpirun starts the ranks";
    return kind == CommunicatorKind::kLocal ? ", if recollect run or torchrun does, on one node"
                                            : ", if they are on several nodes without MPI";
  };
  const ByteUnit& unit = unit_for(std::max(e.memory.arena_bytes(), e.memory.host_bytes));  // phase_table's
  std::string text = parameter_bytes_text(e.parameters);
  bool first = true;
  for (const auto& [communicator, bytes] : e.communication_buffers)
    text += fmt::format("{:<20}{:>12}   ({}{})\n", std::exchange(first, false) ? "communicators" : "",
                        unit(bytes), name_of(communicator), where(communicator));
  if (e.save_buffer > 0)
    text +=
        fmt::format("{:<20}{:>12}   (host memory, for what is saved)\n", "save buffer", unit(e.save_buffer));
  if (e.snapshot_buffer > 0)
    text += fmt::format("{:<20}{:>12}   (host memory, for snapshots: of the rank that saves most)\n",
                        "snapshot buffer", unit(e.snapshot_buffer));
  if (e.resident.predicted > 0)
    text +=
        fmt::format("{:<20}{:>12}   (all of a process, of which {} lie there before the run reserves any)\n",
                    "resident", unit(e.resident.predicted), unit(e.resident.at_start));
  const std::string data = unopened_data(config);
  if (e.resident.predicted > 0 && !data.empty()) text += fmt::format("{:<32}   ({})\n", "", data);
  return text;
}

// `none`: the same without activation checkpointing.
std::string effect_text(const Estimate& e, const Estimate& none) {
  const auto saved =
      static_cast<double>(none.memory.arena_bytes()) - static_cast<double>(e.memory.arena_bytes());
  const ResidencyReport& r = e.residency;
  std::string text =
      fmt::format("against mode none: {:.2f} MiB of the device saved ({:.1f} %)\n", saved / (1 << 20),
                  100 * saved / static_cast<double>(none.memory.arena_bytes()));
  text += fmt::format(
      "per micro-batch: {:.3f} GFLOP recomputed ({:.1f} % more), {} MiB gathered, {} MiB to the host, "
      "{} MiB back",
      e.recomputed_flops / 1e9, 100 * e.recomputed_flops / none.flops,
      mib(r.gathered_bytes + e.gathered.gathered_bytes), mib(r.to_host_bytes), mib(r.to_device_bytes));
  if (r.disk_values > 0)
    text += fmt::format(", {} MiB to the disk, {} MiB from it", mib(r.to_disk_bytes), mib(r.from_disk_bytes));
  if (r.packed_values > 0)
    text += fmt::format("; {} values stored as bf16, which is lossy: {} MiB less", r.packed_values,
                        mib(r.packed_saved_bytes));
  text += "\n";
  if (e.gathered.values > 0)
    text += fmt::format("sequence_parallel: {} activations saved in parts, {} MiB less, and gathered again\n",
                        e.gathered.values, mib(e.gathered.saved_bytes));
  text += "layer inputs between forward and backward, MiB:";
  for (int s = 0; s < kMemorySpaceCount; ++s)
    text += fmt::format(" {} {}", name_of(static_cast<MemorySpace>(s)), mib(r.layer_inputs[s]));
  text += '\n';
  for (const Choice& choice : e.choices)
    text += fmt::format("{}: {} ({})\n", choice.key, choice.layers, choice.reason);
  for (const Remark& remark : e.remarks) text += fmt::format("{}: {}\n", remark.key, remark.sentence);
  for (const auto& [layers, sentence] : layer_sentences(e.layers))
    text += fmt::format("{}: {}\n", layers, sentence);
  return text;
}

// `why`: the rates of this machine are not known.
std::string time_text(const Estimate& e, const Estimate& none, const std::string& why) {
  constexpr std::size_t kLongest = 5;
  const Simulation& s = e.simulation;
  if (!tells_times(e.device.name)) {
    const double none_seconds = none.simulation.step_seconds, waits = s.total_exposed_seconds();
    std::string told = fmt::format("step: not predicted in seconds{}{}\n  rates: {}\n",
                                   why.empty() ? "" : ": ", why, e.calibration);
    if (s.step_seconds != none_seconds || waits > 0)
      told += fmt::format(
          "  by them a step takes {:.2f} times that of mode none, and {:.1f} % of it are exposed waits\n",
          s.step_seconds / none_seconds, 100 * waits / s.step_seconds);
    return told;
  }
  std::string text =
      fmt::format("step: {} by {}, of which {} exposed waits for other streams; mode none: {}\n",
                  duration_text(s.step_seconds), rates_of(e.device.name),
                  duration_text(s.total_exposed_seconds()), duration_text(none.simulation.step_seconds));
  text += fmt::format("  rates: {}\n", e.calibration);
  for (int i = 0; i < kStreamCount; ++i)
    if (s.busy_seconds[i] > 0)
      text += fmt::format("  {:<16} busy {}\n", name_of(static_cast<StreamId>(i)),
                          duration_text(s.busy_seconds[i]));
  for (std::size_t i = 0; i < std::min(kLongest, e.waits.size()); ++i)
    text += fmt::format("  {}: {} waits for {}\n", duration_text(e.waits[i].seconds), e.waits[i].op,
                        e.waits[i].waits_for);
  if (s.tail_seconds > 0)
    text += fmt::format("  {}: for other streams to finish\n", duration_text(s.tail_seconds));
  return text;
}

// All above is of the longest.
std::string lengths_text(const Estimate& e) {
  if (e.lengths.empty()) return {};
  const ByteUnit& unit = unit_for(e.memory.arena_bytes());
  const double longest = e.lengths.back().step_seconds;
  const DurationUnit time =
      tells_times(e.device.name) ? duration_unit_for(longest) : DurationUnit{"of longest", longest};
  const std::string step = fmt::format("step, {}", time.name);
  const auto width = static_cast<int>(std::max<std::size_t>(12, step.size() + 2));
  std::string text =
      fmt::format("sequences padded to\n  length    arena, {}{:>{}}\n", unit.name, step, width);
  for (const LengthEstimate& l : e.lengths)
    text +=
        fmt::format("  {:>6}  {:>11}{:>{}.3f}\n", l.length, unit(l.arena_bytes), time(l.step_seconds), width);
  return text;
}

Json estimate_json(const Estimate& e) {
  const ResidencyReport& r = e.residency;
  Json json{{"unit", "bytes, seconds"},        {"ranks", e.ranks},
            {"threads_of_a_rank", e.threads},  {"mathematics", e.mathematics},
            {"memory", ledger_json(e.memory)}, {"after_forward", row_json(e.after_forward)}};
  json["bytes_per_parameter"] = {{"weights", e.parameters.weights},
                                 {"masters", e.parameters.masters},
                                 {"gradients", e.parameters.gradients},
                                 {"states", e.parameters.states}};
  json["communicator"] = name_of(e.communication_buffers.front().communicator);
  for (const auto& [communicator, bytes] : e.communication_buffers)
    json["communication_buffers"][std::string(name_of(communicator))] = bytes;
  json["save_buffer"] = e.save_buffer;
  json["snapshot_buffer"] = e.snapshot_buffer;
  if (e.resident.predicted > 0)
    json["resident"] = {{"at_start", e.resident.at_start}, {"predicted", e.resident.predicted}};
  for (const Choice& choice : e.choices)
    json[choice.key] = {{"layers", choice.layers}, {"reason", choice.reason}};
  json["remarks"] = Json::array();
  for (const Remark& remark : e.remarks) json["remarks"].push_back(remark.key + ": " + remark.sentence);
  for (const LayerChoices& choices : e.layers)
    json["layers"].push_back({{"layers", choices.layers}, {"values", choices.values}});
  json["per_micro_batch"] = {{"flops", e.flops},
                             {"recomputed_flops", e.recomputed_flops},
                             {"partitioned_values", r.partitioned_values},
                             {"host_values", r.host_values},
                             {"gathered", r.gathered_bytes + e.gathered.gathered_bytes},
                             {"to_host", r.to_host_bytes},
                             {"to_device", r.to_device_bytes},
                             {"disk_values", r.disk_values},
                             {"to_disk", r.to_disk_bytes},
                             {"from_disk", r.from_disk_bytes},
                             {"packed_values", r.packed_values},
                             {"packed_saved", r.packed_saved_bytes}};
  for (int s = 0; s < kMemorySpaceCount; ++s)
    json["layer_inputs"][std::string(name_of(static_cast<MemorySpace>(s)))] = r.layer_inputs[s];
  json["step_seconds"] = e.simulation.step_seconds;
  json["exposed_seconds"] = e.simulation.total_exposed_seconds();
  for (int s = 0; s < kStreamCount; ++s)
    json["busy_seconds"][std::string(name_of(static_cast<StreamId>(s)))] = e.simulation.busy_seconds[s];
  json["waits"] = Json::array();
  for (const Wait& wait : e.waits)
    json["waits"].push_back({{"op", wait.op}, {"waits_for", wait.waits_for}, {"seconds", wait.seconds}});
  for (const LengthEstimate& l : e.lengths)
    json["lengths"].push_back(
        {{"length", l.length}, {"arena", l.arena_bytes}, {"step_seconds", l.step_seconds}});
  return json;
}

// Of ranks that share this machine's memory: another may have more, so that it is no error.
void warn_of_machine(const Config& config, const Estimate& e) {
  if (config.device.backend == BackendKind::kCuda) return;
  const auto ranks = static_cast<uint64_t>(e.ranks);
  const uint64_t needed = ranks * (e.memory.arena_bytes() + e.memory.host_bytes);
  if (const auto small = machine_is_too_small(config, e.memory, needed, static_cast<int>(ranks),
                                              memory_of_machine(SystemFiles())))
    fmt::print(stderr, "recollect: warning: {}\n{}\n", small->what(), small->hint());
}

void print_one(const Config& config, bool json, const std::string& why) {
  const Estimate e = estimate(config),
                 none = checkpoints(config) ? estimate(without_checkpointing(config), Ranks::kFirst) : e;
  if (json) {
    Json document = estimate_json(e);
    document["device_model"] = e.device.name;
    document["rates"] = e.calibration;
    document["none"] = estimate_json(none);
    document["saved"] =
        static_cast<int64_t>(none.memory.arena_bytes()) - static_cast<int64_t>(e.memory.arena_bytes());
    fmt::print("{}\n", document.dump(2));
  } else {
    if (e.ranks > 1)
      fmt::print("{} ranks ({} data x {} tensor), all alike\n", e.ranks,
                 config.parallelism.data_parallel_size, config.parallelism.tensor_parallel_size);
    if (!e.threads.empty())
      fmt::print(
          "a rank is taken to have {} and {}, as where all ranks share this node: each thread has scratch "
          "memory\n",
          e.threads, e.mathematics);
    fmt::print("{}{}\n{}\n{}{}", phase_table(e.ranks == 1 ? "memory" : "memory of each", e.memory),
               buffers_text(config, e), effect_text(e, none), time_text(e, none, why), lengths_text(e));
  }
  check_limits(config, e.memory);
  warn_of_machine(config, e);
}

// The step as the simulator predicts it, for eyes; `chart` stands above it.
void write_files(const Config& config, const EstimateOptions& chosen, const std::string& chart) {
  if (chosen.trace.empty() && chosen.html.empty()) return;
  const auto [rank, training] = plan_training(config, 0, 0);
  std::vector<std::vector<RankReport>> run{
      {predict(config, rank.mesh(), training, training.program, rank.reserve(config, training))}};
  run[0][0].start.uncheckpointed = predict_uncheckpointed(
      config, training, training.program, [&rank = rank](const Config& none) { return rank.plan(none); });
  if (!chosen.trace.empty()) {
    ChromeTrace trace;
    trace.add(run[0][0], ChromeTrace::Times::kPredicted);
    write_text_file(chosen.trace, trace.text());
  }
  if (!chosen.html.empty()) write_text_file(chosen.html, html_page(run, {.chart = chart}));
}

void print_comparison(const Config& config, bool json) {
  const std::vector<Variant> variants = compare_variants(config);
  // What the device holds and what the host holds is one memory there, and only the sum of it says what a run takes.
  const bool one_memory = config.device.backend != BackendKind::kCuda;
  const bool disk =
      !config.activation_checkpointing.disk_checkpointing.path.empty();  // else it has no columns
  const auto yes = [](bool on) { return on ? "yes" : "-"; };
  Json document = Json::array();
  double longest = 0;
  for (const Variant& v : variants) longest = std::max(longest, v.estimate.simulation.step_seconds);
  const DurationUnit& time = duration_unit_for(longest);
  if (!json)
    fmt::print("{:<17}{:<11}{:<6}{}{:>12}{:>12}{}{}{:>12}{:>12}{:>14}\n", "mode", "partition", "host",
               disk ? "disk  " : "", "device MiB", "host MiB", one_memory ? "     sum MiB" : "",
               disk ? "    disk MiB" : "", fmt::format("step {}", time.name),
               fmt::format("waits {}", time.name), "recomputed");
  for (const Variant& v : variants) {
    const Estimate& e = v.estimate;
    if (json) {
      document.push_back({{"mode", v.mode},
                          {"partition_activations", v.partition},
                          {"cpu_checkpointing", v.host},
                          {"disk_checkpointing", v.disk},
                          {"fits", v.fits},
                          {"estimate", estimate_json(e)}});
      continue;
    }
    const uint64_t sum = e.memory.arena_bytes() + e.memory.host_bytes;
    fmt::print("{:<17}{:<11}{:<6}{}{:>12}{:>12}{}{}{:>12.3f}{:>12.3f}{:>12.1f} %{}\n", v.mode,
               yes(v.partition), yes(v.host), disk ? fmt::format("{:<6}", yes(v.disk)) : "",
               mib(e.memory.arena_bytes()), mib(e.memory.host_bytes),
               one_memory ? fmt::format("{:>12}", mib(sum)) : "",
               disk ? fmt::format("{:>12}", mib(e.memory.disk_bytes)) : "", time(e.simulation.step_seconds),
               time(e.simulation.total_exposed_seconds()),
               100 * e.recomputed_flops / (e.flops - e.recomputed_flops), v.fits ? "" : "  over a limit");
  }
  if (json)
    fmt::print("{}\n", document.dump(2));
  else if (!variants.empty())
    fmt::print("rates: {}\n", variants.front().estimate.calibration);
}

// What must fit something fits this machine, where nothing else was said.
void take_memory_of_machine(const EstimateOptions& chosen, Config& config) {
  if (const std::string budget = said_of_budget(config); !budget.empty()) warn("{}", budget);
  const bool largest = std::find(chosen.largest.begin(), chosen.largest.end(), true) != chosen.largest.end();
  const std::optional<MachineShare> share =
      largest && budget_of(config) == 0 ? machine_share(config) : std::nullopt;
  if (!share) return;
  config.device.memory_limit = share->bytes;
  warn("device.memory_limit is {}: {}", bytes_text(static_cast<uint64_t>(share->bytes)), share->from);
}

void print_largest(const Config& config, RunSize size, bool json) {
  const LargestRun run = largest_run(config, size);
  const uint64_t limit = budget_of(config);
  if (json) {
    std::string name = size == RunSize::kMicroBatch ? "micro_batch_size" : std::string(name_of(size));
    std::replace(name.begin(), name.end(), '-', '_');
    fmt::print("{}\n", Json{{name, run.value}, {"settings", run.settings}}.dump(2));
  } else if (run.value > 0 && run.bound.empty()) {
    fmt::print("{} is the largest that fits {}\n", run.settings, byte_count(limit));
  } else if (run.value > 0) {
    fmt::print("{} and all below fit {}; {}\n", run.settings, byte_count(limit), run.bound);
  }
  if (run.value == 0)
    throw Error(ExitCode::kDeviceMemory, fmt::format("not even {} fits {}", run.settings, byte_count(limit)),
                "use more tensor-parallel ranks, or activation checkpointing");
}

LengthCounts counts_of(const std::string& lengths, const Config& config) {
  if (lengths.empty()) return {};
  return lengths == "data" ? count_lengths(config) : read_length_counts(lengths, config);
}

}  // namespace

OptionTable estimate_options() { return EstimateOptions().options(); }

void estimate_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  EstimateOptions chosen;
  Config config = read_config_words("estimate", parse_options(words, chosen.options()), kAnyBuild);
  if (chosen.questions() > 1)
    throw Error(ExitCode::kConfiguration,
                "--compare, --policies, --pareto and each --max-... are different questions",
                "ask them one by one");
  if (!chosen.lengths.empty() && !chosen.policies)
    throw Error(ExitCode::kConfiguration,
                "--lengths says how often lengths come, which --policies alone shows",
                "ask with --policies, or leave --lengths out");
  check_report_files(chosen.html, chosen.trace);
  resolve_planned_world(config);
  const bool of_size = std::find(chosen.largest.begin(), chosen.largest.end(), true) != chosen.largest.end();
  const std::string why = of_size ? "" : learn_machine_rates(config);
  take_memory_of_machine(chosen, config);
  std::optional<BudgetComparison> budgets;
  if (chosen.pareto) budgets = compare_budgets(config);
  write_files(config, chosen, budgets ? budgets_chart(*budgets) : "");
  if (chosen.compare) return print_comparison(config, chosen.json);
  if (chosen.policies) return print_policies(config, counts_of(chosen.lengths, config), chosen.json);
  if (budgets) return print_pareto(config, *budgets, chosen.json);
  for (std::size_t i = 0; i < chosen.largest.size(); ++i)
    if (chosen.largest[i]) return print_largest(config, static_cast<RunSize>(i), chosen.json);
  print_one(config, chosen.json, why);
}

}  // namespace recollect
