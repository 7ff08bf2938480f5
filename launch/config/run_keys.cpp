// The keys of what surrounds training: checkpointing of activations, saving, numerics, and what is told of a run.
#include <array>

#include "launch/config/key_list.h"
#include "launch/config/key_makers.h"

namespace recollect {
namespace {

constexpr std::array<std::string_view, 5> kRecomputeGroups = {"attention", "mlp", "norm", "activation",
                                                              "dropout"};

constexpr std::array<std::string_view, 3> kMetricForms = {"jsonl", "tensorboard", "mlflow"};

void add_checkpointing(std::vector<ConfigKey>& keys) {
  using AC = CheckpointingSettings;
  const Adder<AC> checkpointing(keys, "activation_checkpointing", &Config::activation_checkpointing,
                                kNothing);
  checkpointing("mode", &AC::mode, any(), "which activations are recomputed");
  checkpointing("k", &AC::k, between(0, 65536), "every_k: layers a segment");
  checkpointing("recompute", &AC::recompute, among(kRecomputeGroups),
                "selective: groups of ops; none given: norm and activation");
  checkpointing(
      "memory_budget", &AC::memory_budget, byte_size(),
      "auto, dtr: all that a rank may take of its device, such as 6GiB; not given: device.memory_limit, "
      "or on a CPU nine tenths of the machine for all ranks");
  checkpointing("host_memory_budget", &AC::host_memory_budget, byte_size(),
                "auto: host memory for saved activations, such as 1GiB; 0: none unless cpu_checkpointing");
  checkpointing(
      "budget_policy", &AC::budget_policy, any(),
      "auto: a plan for each length, the longest's for all, named layers, or as modes full and none");
  checkpointing(
      "replan_after", &AC::replan_after, between(0, kMaxCount),
      "auto: steps after which the plan is made again where measured times differ by a fifth; 0: never");
  checkpointing("recompute_layers", &AC::recompute_layers, any(), "budget_policy fixed: numbers of layers");
  checkpointing("partition_activations", &AC::partition_activations, any(),
                "saved activations that are the same on all tensor ranks: 1/t on each, gathered before use");
  checkpointing("cpu_checkpointing", &AC::cpu_checkpointing, any(),
                "saved activations wait in host memory, copied out and back on side streams");
  checkpointing("contiguous_checkpointing", &AC::contiguous_checkpointing, any(),
                "saved activations in the planned arena, without fragmentation; false: in a best-fit pool");
  checkpointing("keep_last", &AC::keep_last, between(-1, 65536),
                "layers at the end whose values never leave; -1: chosen by the simulator");
  checkpointing("prefetch", &AC::prefetch, between(-1, 65536),
                "layers that fetches run ahead; -1: chosen by the simulator");
  checkpointing("number_checkpoints", &AC::number_checkpoints, between(0, 65536),
                "layer inputs that are saved, to be checked; 0: not checked");
  checkpointing("plan", &AC::plan, any(), "file that decides for every value, instead of mode and switches");
  checkpointing(
      "verify", &AC::verify, any(),
      "hash every value that is recomputed, gathered or brought back; the first difference ends the run");
  checkpointing(
      "storage_dtype", &AC::storage_dtype, any(), kResults,
      "of saved activations that are not needed at once; lossy: bf16 halves fp32; e4m3 and e5m2 have a "
      "byte a number and a scale each");
  const auto disk = [](auto& config) -> auto& { return config.activation_checkpointing.disk_checkpointing; };
  const std::string disk_section = "activation_checkpointing.disk_checkpointing";
  const std::size_t first = keys.size();
  keys.push_back(make_key(
      disk_section, "path", [disk](auto& config) -> auto& { return disk(config).path; }, any(),
      "folder on the disk where saved activations wait; each rank has a file there without a name"));
  keys.push_back(make_key(
      disk_section, "limit", [disk](auto& config) -> auto& { return disk(config).limit; }, byte_size(),
      "bytes there per rank, such as 100GiB; 0: none"));
  for (std::size_t i = first; i < keys.size(); ++i) keys[i].decides = kNothing;
}

void add_saving(std::vector<ConfigKey>& keys) {
  const Adder checkpoint(keys, "checkpoint", &Config::checkpoint, kNothing);
  checkpoint("save_model", &Config::Checkpoint::save_model, any(),
             "write model.safetensors and config.json at the end");
  checkpoint("save_best_model", &Config::Checkpoint::save_best_model, any(),
             "write those of the best evaluation to output_dir/best_model, beside those of the end");
  checkpoint(
      "max_shard_size", &Config::Checkpoint::max_shard_size, byte_size(),
      "bytes of tensors in one file: a larger model is several files and an index of them; 0: one file");
  using S = Config::Snapshot;
  const Adder<S> snapshot(keys, "snapshot", &Config::snapshot, kNothing);
  snapshot("every_steps", &S::every_steps, between(0, kMaxCount),
           "save so often, and after the last step; 0: not by steps");
  snapshot("every_epochs", &S::every_epochs, between(0, 1e6),
           "in place of every_steps: epochs of the training data from one to the next, such as 1 or 0.5");
  snapshot("every_minutes", &S::every_minutes, between(0, kMaxCount), "save so often; 0: not by the clock");
  snapshot("keep", &S::keep, between(1, 65536), "the newest ones, older ones go");
  snapshot("path", &S::path, any(), "folder that all ranks see; not given: output_dir/snapshots");
  snapshot("asynchronous", &S::asynchronous, any(),
           "a copy in host memory is written while training goes on; false: no copy, and the step waits");
}

void add_numerics(std::vector<ConfigKey>& keys) {
  using N = Config::Numerics;
  const Adder<N> numerics(keys, "numerics", &Config::numerics, kNothing);
  numerics("on_non_finite", &N::on_non_finite, any(), kNotFinite,
           "of a step's loss or gradients, where no loss scale helps: end the run; leave the update out; or "
           "go back "
           "to the newest snapshot and leave out the batches since then");
  numerics("max_non_finite", &N::max_non_finite, between(1, kMaxCount), kNotFinite,
           "skipped steps in a row, or rollbacks of a run, before it ends all the same");
  numerics(
      "spike_z_score", &N::spike_z_score, between(0, 1e6),
      "name the samples of a step whose loss is so many standard deviations above the mean of the last 100 "
      "steps; 0: never");
  numerics("verify_every", &N::verify_every, between(0, kMaxCount),
           "steps whose first micro-batch is computed twice, and the bits compared; 0: none");
}

void add_telling(std::vector<ConfigKey>& keys) {
  const Adder logging(keys, "logging", &Config::logging, kNothing);
  logging("steps", &Config::Logging::steps, between(0, kMaxCount),
          "steps between lines on the terminal; 0: a twentieth of the run, 500 at most");
  logging("every_epochs", &Config::Logging::every_epochs, between(0, 1e6),
          "in place of steps: epochs of the training data between lines on the terminal");
  logging("progress", &Config::Logging::progress, any(),
          "progress bar; auto: on a terminal, that of the launcher where one starts the ranks, unless "
          "NO_COLOR or CI is set or TERM is dumb");
  logging("report_to", &Config::Logging::report_to, among(kMetricForms),
          "forms of the metrics: metrics.jsonl in output_dir, TensorBoard event files, MLflow's folders; []: "
          "none");
  logging("tensorboard_dir", &Config::Logging::tensorboard_dir, any(),
          "folder of the event files; not given: output_dir/tensorboard");
  logging("mlflow_dir", &Config::Logging::mlflow_dir, any(),
          "folder of MLflow's runs, several trainings' too; not given: output_dir/mlruns");
  logging("hook", &Config::Logging::hook, any(),
          "command that gets every line of metrics on its standard input; it may be slow, or end");
  logging(
      "verbose", &Config::Logging::verbose, any(),
      "tables of memory, times and switches on the terminal, as memory_report.formats: table and `recollect "
      "report` have them, and all about the layout");
  const Adder report(keys, "memory_report", &Config::memory_report, kNothing);
  report("at", &Config::MemoryReport::at, any(), "when memory is reported: start, end, step:N; a list");
  report("formats", &Config::MemoryReport::formats, among(kSpellings<ReportFormat>),
         "how: table on the terminal, json, html and trace as files; a list");
  Adder(keys, "profiling", &Config::profiling, kNothing)(
      "step", &Config::Profiling::step, between(0, kMaxCount),
      "shown by html, json and trace; 0: none; not given: the third, or the last of fewer; on a GPU none, "
      "since "
      "such a step is launched op by op");
  const Adder debug(keys, "debug", &Config::debug, kNothing);
  debug("dump_gradients", &Config::Debug::dump_gradients, any(), "file for the full gradients of one step");
  debug("dump_step", &Config::Debug::dump_step, between(1, kMaxCount), "which step; the first is 1");
}

void add_top_level(std::vector<ConfigKey>& keys) {
  const std::size_t first = keys.size();
  keys.push_back(make_key(
      "", "output_dir", [](auto& config) -> auto& { return config.output_dir; }, not_empty(),
      "where everything the run writes goes"));
  keys.push_back(make_key(
      "", "resume", [](auto& config) -> auto& { return config.resume; }, not_empty(),
      "auto: from the newest good snapshot where the run saves them; never; or the folder of one"));
  keys.push_back(make_key(
      "", "overwrite", [](auto& config) -> auto& { return config.overwrite; }, any(),
      "whether the files of the run before are replaced; else they move to output_dir/earlier/N; --overwrite "
      "is the same; resume, where not given, is never then"));
  for (std::size_t i = first; i < keys.size(); ++i) keys[i].decides = kNothing;
}

}  // namespace

void list_run_keys(std::vector<ConfigKey>& keys) {
  add_checkpointing(keys);
  add_saving(keys);
  add_numerics(keys);
  add_telling(keys);
  add_top_level(keys);
}

}  // namespace recollect
