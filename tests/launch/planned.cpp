#include "tests/launch/planned.h"

#include <fmt/format.h>

#include "checkpointing/op_time.h"
#include "checkpointing/simulator.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/training_harness.h"

namespace recollect::test {

Config planned(const std::string& yaml, const Words& words) {
  Config config = read_config_text("test.yaml", yaml, words);
  resolve_planned_world(config);
  return config;
}

uint64_t bytes_of(const Config& planned) {
  return PlannedRank(planned, 0, 0).require_plan(planned).program.predicted().arena_bytes();
}

double seconds_for_collectives(const Config& planned) {
  const TrainingProgram training = PlannedRank(planned, 0, 0).require_plan(planned);
  const Program& program = training.program;
  const std::vector<double> durations = op_durations(program.graph, training.device);
  double seconds = simulate(program.graph, program.schedule, training.device, 1).total_exposed_seconds();
  for (OpId id : program.graph.op_ids()) {
    const Op& op = program.graph.op(id);
    if (op.stream == StreamId::kCompute && op.def->unit == Unit::kCollective) seconds += durations[id];
  }
  return seconds;
}

Words budget(uint64_t bytes) { return {ac("mode=auto"), ac(fmt::format("memory_budget={}", bytes))}; }

}  // namespace recollect::test
