#include "tests/launch/planned.h"

#include <fmt/format.h>

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

Words budget(uint64_t bytes) { return {ac("mode=auto"), ac(fmt::format("memory_budget={}", bytes))}; }

}  // namespace recollect::test
