#include "launch/doctor/measure_ops.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <omp.h>

#include <fmt/format.h>

#include "checkpointing/op_time.h"
#include "checkpointing/simulator.h"
#include "launch/config/read.h"
#include "launch/config/validate.h"
#include "launch/program/estimate.h"
#include "launch/ranks/cores.h"
#include "launch/ranks/world.h"
#include "launch/train/profile_session.h"
#include "launch/train/session.h"

namespace recollect {

namespace {

using Clock = std::chrono::steady_clock;

// Widths from those where starting an op dominates to those where arithmetic dominates, the quickest steps
// first.
constexpr StepSample kSamples[] = {
    {2, 64, 4, 256, 4, 64, 0.0, 1},         {2, 128, 4, 256, 4, 128, 0.1, 1, true},
    {2, 128, 4, 256, 8, 128, 0.0, 1},       {2, 256, 4, 1024, 4, 128, 0.0, 2},
    {1, 512, 8, 256, 2, 256, 0.1, 3, true}, {1, 768, 12, 4096, 1, 512, 0.0, 6}};
constexpr int kLeastWidth = 128;                  // up to here, measured in any case
constexpr int kLeastSteps = 2, kMostSteps = 300;  // after one warm-up step

Config config_of(const ModelFamily& family, const StepSample& s, const std::string& sections,
                 const std::vector<std::string>& words = {}) {
  Config::Model model(family);
  model.values = family.sketch(family, {.vocabulary = s.vocabulary,
                                        .longest = s.sequence,
                                        .width = s.width,
                                        .layers = s.layers,
                                        .heads = s.heads,
                                        .dropout = s.dropout});
  return read_config_text("calibration",
                          dump_model(model) + sections +
                              fmt::format("data: {{format: random, sequence_length: {}{}}}\n", s.sequence,
                                          family.tasks.front() == Task::kMaskedLm ? ", mask_token: 0" : ""),
                          words);
}

Config config_on_cpu(const ModelFamily& family, const StepSample& s, const std::string& precision,
                     int threads) {
  return config_of(family, s,
                   fmt::format("device: {{backend: cpu, threads: {}}}\n"
                               "training: {{micro_batch_size: {}, max_steps: {}, precision: {}}}\n"
                               "profiling: {{step: 0}}\n",
                               threads, s.samples, kMostSteps + 1, precision));
}

// The first family, and every other family with op kinds that no earlier one has.
std::vector<const ModelFamily*> families_to_measure() {
  std::vector<const ModelFamily*> families;
  std::set<std::string> kinds;
  for (const ModelFamily& family : model_families()) {
    Config config = config_on_cpu(family, kSamples[0], "fp32", 1);
    resolve_planned_world(config);
    const PlannedTraining planned = plan_training(config, 0, 0);
    const std::size_t before = kinds.size();
    for (const Op& op : planned.training.program.graph.ops()) kinds.insert(op.def->name);
    if (kinds.size() > before) families.push_back(&family);
  }
  return families;
}

// Measures the seconds of each op in one step.
class OpClock final : public ExecutorProbe {
 public:
  void before_op(const Executor&, OpId) override { begun_ = Clock::now(); }
  void after_op(const Executor& executor, OpId id) override {
    const auto now = Clock::now();
    seconds.resize(executor.program().graph.ops().size());
    seconds[static_cast<std::size_t>(id)] += std::chrono::duration<double>(now - begun_).count();
  }
  std::vector<double> seconds;

 private:
  Clock::time_point begun_;
};

struct Step {
  double seconds = 0, beside_ops = 0;
  std::vector<double> ops = {};
};

double mean_of_least(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  seconds.resize((seconds.size() + 9) / 10);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

// The time at the fastest tenth of the steps, for every op and for the rest of a step. Other programs disturb
// the slower ones, and no single step is undisturbed in all its ops.
Step undisturbed(const std::vector<Step>& steps) {
  Step best{.ops = std::vector<double>(steps.front().ops.size())};
  std::vector<double> times(steps.size());
  for (std::size_t op = 0; op < best.ops.size(); ++op) {
    std::transform(steps.begin(), steps.end(), times.begin(), [&](const Step& step) { return step.ops[op]; });
    best.ops[op] = mean_of_least(times);
  }
  std::transform(steps.begin(), steps.end(), times.begin(), [](const Step& step) {
    return std::max(0.0, step.seconds - std::accumulate(step.ops.begin(), step.ops.end(), 0.0));
  });
  best.beside_ops = mean_of_least(times);
  return best;
}

// The sum of all measurements of one kernel at about one amount of work.
struct Sum {
  double amounts = 0, work = 0, seconds = 0;
  int ops = 0;
};
using Sums = std::map<std::string, std::map<int, Sum>>;  // by kernel and the amount's power of two

// `dtype_of_f32` replaces "f32" in the keys.
void add_ops(const Graph& graph, const Step& step, Sums& sums, const std::string& dtype_of_f32 = "f32") {
  for (std::size_t id = 0; id < graph.ops().size(); ++id) {
    const KernelUse use = kernel_use({graph, graph.ops()[id]});
    if (use.work <= 0) continue;
    std::string key = use.key;
    if (const std::size_t at = key.find(" f32"); at != std::string::npos)
      key.replace(at + 1, 3, dtype_of_f32);
    Sum& sum = sums[key][static_cast<int>(std::lround(std::log2(use.amount)))];
    sum.amounts += use.amount;
    sum.work += use.work;
    sum.seconds += std::max(step.ops[id], 1e-9);
    ++sum.ops;
  }
}

// Ranks on the other cores that run steps of their own. They make the measured rank slower, as in training:
// ranks share caches, memory and the processor's clock budget.
class Neighbours {
 public:
  Neighbours(const Config& config, int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([&, config] { run(config); });
    for (std::unique_lock lock(mutex_); ready_ < count;) news_.wait(lock);
  }
  ~Neighbours() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void run(const Config& config) {
    omp_set_num_threads(static_cast<int>(config.device.threads));
    const std::unique_ptr<Communicator> world = make_self_communicator();
    Session session(config, *world);
    session.step();
    {
      const std::lock_guard lock(mutex_);
      ++ready_;
    }
    news_.notify_one();
    for (int64_t step = 1; step < config.training.max_steps && !stop_; ++step) session.step();
  }

  std::mutex mutex_;
  std::condition_variable news_;
  int ready_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

struct Timed {
  double overhead = 0;   // seconds of the step between ops, per op
  double disturbed = 0;  // as in OpRates
};

// Takes `seconds`, including the start. `neighbours` is the number of ranks that do the same at that time.
Timed measure_one(Config config, int neighbours, double seconds, Sums& sums) {
  const auto start = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  resolve_world(config, 1);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  OpClock clock;
  Session session(config, *world, {.edit_program = {}, .probe = &clock});
  session.step();
  config.training.max_steps = std::numeric_limits<int32_t>::max();  // the time limits it
  const Neighbours others(config, neighbours);
  std::vector<Step> steps;
  while (steps.size() < kLeastSteps || (steps.size() < kMostSteps && spent() < seconds)) {
    std::fill(clock.seconds.begin(), clock.seconds.end(), 0.0);
    const double took = session.step().seconds;
    steps.push_back({.seconds = took, .ops = clock.seconds});
  }
  const Step step = undisturbed(steps);
  add_ops(session.executor().program().graph, step, sums);
  std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), steps.end(),
                   [](const Step& a, const Step& b) { return a.seconds < b.seconds; });
  const double least = std::accumulate(step.ops.begin(), step.ops.end(), step.beside_ops);
  return {step.beside_ops / static_cast<double>(step.ops.size()),
          std::max(0.0, steps[steps.size() / 2].seconds / least - 1)};
}

std::map<std::string, RateCurve, std::less<>> rates_of_sums(const Sums& sums) {
  std::map<std::string, RateCurve, std::less<>> rates;
  for (const auto& [kernel, by_amount] : sums)
    for (const auto& [power, sum] : by_amount)
      rates[kernel].push_back({sum.amounts / sum.ops, sum.work / sum.seconds});
  return rates;
}

// Adds the medians of a few steps that are launched op by op, after two warm-up steps.
void measure_on_gpu(const ModelFamily& family, const StepSample& sample, const std::string& words,
                    double launch, Sums& sums) {
  constexpr int kWarm = 2, kTimed = 5;
  std::vector<std::string> keys;
  std::istringstream text(words);
  for (std::string word; text >> word;) keys.push_back(word);
  Config config = config_of(family, sample,
                            fmt::format("device: {{backend: cuda}}\n"
                                        "training: {{micro_batch_size: {}, max_steps: {}}}\n"
                                        "profiling: {{step: {}}}\n",
                                        sample.samples, kWarm + kTimed, kWarm + kTimed),
                            keys);
  resolve_world(config, 1);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  Session session(config, *world);
  const RankReport report = profile_session(config, session, kTimed);
  require(report.timeline.measured.has_value(), "the steps were recorded");
  const Graph& graph = session.executor().program().graph;
  Step step{.ops = std::vector<double>(graph.ops().size())};
  for (const StepTimeline::Run& run : report.timeline.measured->runs)
    for (std::size_t op = 0; op < run.ops.size(); ++op) {
      const double took = 1e-9 * static_cast<double>(run.ops[op].end - run.ops[op].begin);
      step.ops[static_cast<std::size_t>(run.first) + op] = std::max(took - launch, took / 4);
    }
  add_ops(graph, step, sums, config.device.tf32 ? "tf32" : "f32");
}

}  // namespace

OpRates measure_ops(const std::string& precision, int threads, double seconds) {
  OpRates rates;
  Sums sums;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::vector<std::pair<const ModelFamily*, StepSample>> samples;
  const std::vector<const ModelFamily*> families = families_to_measure();
  double shares = 0;
  for (const StepSample& sample : kSamples)
    for (const ModelFamily* family : families)
      if (sample.of_all || family == families.front()) {
        samples.emplace_back(family, sample);
        shares += sample.share;
      }
  for (const auto& [family, sample] : samples) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0 && sample.width > kLeastWidth) break;  // the nearest rates replace the missing ones
    const double gap = measure_one(config_on_cpu(*family, sample, precision, threads),
                                   usable_cores() / threads - 1, left * sample.share / shares, sums)
                           .overhead;
    shares -= sample.share;
    rates.overhead = rates.overhead > 0 ? std::min(rates.overhead, gap) : gap;
  }
  rates.kernels = rates_of_sums(sums);
  return rates;
}

namespace {

// A smaller version of a run. `width` 0 means the run's own model; otherwise a model of its family with this
// width.
struct SmallRun {
  int64_t layers, samples, sequence, width = 0;

  // Halves the size that matters least to rates. Returns false if nothing can be made smaller.
  bool shrink() {
    constexpr int64_t kLeastSequence = 128, kWidest = 1024, kNarrowest = 128;
    if (layers > 1) return layers /= 2, true;
    if (samples > 1) return samples /= 2, true;
    if (sequence > kLeastSequence) return sequence = std::max(kLeastSequence, sequence / 2), true;
    if (width == kNarrowest) return false;
    width = width == 0 ? kWidest : width / 2;
    return true;
  }
};

Config small_config(const Config& run, const SmallRun& small, int threads) {
  constexpr int64_t kVocabulary = 2048, kHeadSize = 64;  // larger heads are not faster
  const ModelFamily& family = run.model.family();
  const ModelFacts facts = run.model.facts();
  const int64_t vocabulary = std::min(kVocabulary, facts.vocabulary.value);
  Config::Model model(family);
  if (small.width == 0) {
    model.values = run.model.values;
    model.values.set(facts.layers.key, small.layers);
    model.values.set(facts.vocabulary.key, vocabulary);
  } else {
    model.values = family.sketch(family, {.vocabulary = vocabulary,
                                          .longest = small.sequence,
                                          .width = small.width,
                                          .layers = small.layers,
                                          .heads = small.width / kHeadSize,
                                          .dropout = 0});
  }
  return read_config_text(
      "rates",
      dump_model(model) + fmt::format("device: {{threads: {}, isa: {}}}\n"
                                      "training: {{micro_batch_size: {}, max_steps: {}, precision: {}}}\n"
                                      "optimizer: {{name: {}, max_grad_norm: {}}}\nprofiling: {{step: 0}}\n"
                                      "data: {{format: random, sequence_length: {}{}}}\n",
                                      threads, name_of(run.device.isa), small.samples, kMostSteps + 1,
                                      name_of(run.training.precision), run.optimizer.name,
                                      run.optimizer.max_grad_norm, small.sequence,
                                      family.tasks.front() == Task::kMaskedLm ? ", mask_token: 0" : ""));
}

// Predicted seconds for the initialisation and a few steps.
double seconds_to_measure(Config config, const DeviceModel& device) {
  constexpr double kSteps = 1.5 + kLeastSteps + 2;  // page faults make the first slow
  constexpr double kFilled = 0.5e9;                 // bytes/s of random weights
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  const Program& program = planned.training.program;
  return kSteps * simulate(program.graph, program.schedule, device, 1).step_seconds +
         static_cast<double>(program.predicted().persistent_bytes) / kFilled;
}

// Empty if the run's own model cannot have fewer layers or words; then a model of its family is next.
std::optional<Config> try_small_config(const Config& run, const SmallRun& small, int threads) {
  try {
    return small_config(run, small, threads);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

OpRates measure_ops_of(const Config& run, int threads, double seconds, const DeviceModel& device) {
  constexpr double kProbe = 0.05;
  constexpr int64_t kMostLayers = 4;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const auto left = [&] { return std::chrono::duration<double>(end - Clock::now()).count(); };
  const std::string precision(name_of(run.training.precision));
  Sums probed, sums;
  DeviceModel known = device;
  known.launch_overhead =
      measure_one(config_on_cpu(run.model.family(), {1, 256, 4, 256, 1, 64, 0.0, 1}, precision, threads), 0,
                  kProbe, probed)
          .overhead;
  known.kernels = rates_of_sums(probed);
  SmallRun small{.layers = std::min(kMostLayers, run.model.facts().layers.value),
                 .samples = run.training.micro_batch_size,
                 .sequence = run.data.sequence_length};
  std::optional<Config> config = try_small_config(run, small, threads);
  while ((!config || seconds_to_measure(*config, known) > left()) && small.shrink())
    config = try_small_config(run, small, threads);
  if (!config) return {};
  const Timed timed = measure_one(*config, 0, left(), sums);
  for (const auto& [kernel, by_amount] : probed) sums[kernel].insert(by_amount.begin(), by_amount.end());
  return {.kernels = rates_of_sums(sums), .overhead = timed.overhead, .disturbed = timed.disturbed};
}

GpuRates measure_ops_of_gpu(const GpuSteps& steps, double launch) {
  GpuRates rates;
  Sums sums;
  const auto end = Clock::now() + std::chrono::duration<double>(steps.seconds);
  const std::vector<const ModelFamily*> families = families_to_measure();
  for (std::size_t i = 0; i < steps.samples.size(); ++i)
    for (const std::string& words : steps.words)
      for (const ModelFamily* family : families) {
        const StepSample& sample = steps.samples[i];
        if (!sample.of_all && family != families.front()) continue;
        if (Clock::now() > end && (i > 0 || family != families.front()))
          rates.left_out.push_back(fmt::format("{} of width {}, {}", family->type, sample.width, words));
        else
          measure_on_gpu(*family, sample, words, launch, sums);
      }
  rates.kernels = rates_of_sums(sums);
  return rates;
}

}  // namespace recollect
