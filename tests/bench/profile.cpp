// Where a training step's time goes: trains a configuration in this process and prints, by op kind and phase,
// how long the ops of its compute stream ran, with the rates that their costs make of it.
//
//   bench_profile CONFIG.yaml [key=value ...]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/op_def.h"
#include "launch/config/read.h"
#include "launch/config/validate.h"
#include "launch/ranks/world.h"
#include "launch/train/session.h"

namespace recollect {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 2;  // steps that do not count

class OpTimes final : public ExecutorProbe {
 public:
  void before_op(const Executor& executor, OpId id) override {
    if (executor.program().graph.op(id).stream == StreamId::kCompute) begun_ = Clock::now();
  }

  void after_op(const Executor& executor, OpId id) override {
    const Op& op = executor.program().graph.op(id);
    if (op.stream != StreamId::kCompute || !counting) return;
    Row& row = rows_[{std::string(name_of(op.phase)), op.def->name}];
    row.seconds += std::chrono::duration<double>(Clock::now() - begun_).count();
    ++row.runs;
    if (!op.def->cost) return;
    const Cost cost = op.def->cost(OpView{executor.program().graph, op});
    row.flops += cost.flops;
    row.bytes += cost.bytes;
  }

  void print(int64_t steps, double step_seconds) const {
    std::vector<std::pair<std::pair<std::string, std::string>, Row>> sorted(rows_.begin(), rows_.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    fmt::print("{:<10}{:<28}{:>6}{:>12}{:>8}{:>10}{:>8}\n", "phase", "op", "runs", "ms a step", "%",
               "GFLOP/s", "GB/s");
    double sum = 0;
    for (const auto& [key, row] : sorted) {
      sum += row.seconds;
      fmt::print("{:<10}{:<28}{:>6}{:>12.2f}{:>8.1f}{:>10.0f}{:>8.1f}\n", key.first, key.second,
                 row.runs / steps, 1e3 * row.seconds / static_cast<double>(steps),
                 100 * row.seconds / step_seconds, 1e-9 * row.flops / row.seconds,
                 1e-9 * row.bytes / row.seconds);
    }
    fmt::print("{:<44}{:>12.2f}{:>8.1f}\n", "all ops", 1e3 * sum / static_cast<double>(steps),
               100 * sum / step_seconds);
    fmt::print("{:<44}{:>12.2f}\n", "step", 1e3 * step_seconds / static_cast<double>(steps));
  }

  bool counting = false;

 private:
  struct Row {
    double seconds = 0, flops = 0, bytes = 0;
    int64_t runs = 0;
  };
  Clock::time_point begun_;
  std::map<std::pair<std::string, std::string>, Row> rows_;
};

void profile(Config config, Communicator& world) {
  resolve_world(config, world.size());
  OpTimes times;
  ProgramParts parts;
  if (world.rank() == 0) parts.probe = &times;
  Session session(config, world, parts);
  double seconds = 0;
  for (int64_t step = 0; step < config.training.max_steps; ++step) {
    times.counting = step >= kWarmUp;
    const double taken = session.step().seconds;
    if (times.counting) seconds += taken;
  }
  if (world.rank() == 0) times.print(config.training.max_steps - kWarmUp, seconds);
}

}  // namespace
}  // namespace recollect

int main(int argc, char** argv) {
  using namespace recollect;
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_profile CONFIG.yaml [key=value ...]\n");
    return 2;
  }
  try {
    const Config config = read_config(argv[1], {argv + 2, argv + argc});
    if (config.training.max_steps <= kWarmUp)
      throw Error(ExitCode::kConfiguration, "training.max_steps is too small to warm up");
    std::unique_ptr<MpiEnvironment> mpi;
    run_ranks(config, mpi, [&](Communicator& world) { profile(config, world); });
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
