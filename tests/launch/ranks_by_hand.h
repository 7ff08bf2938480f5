// The ranks of a run started one by one, each with the variables that a test gives it, as any launcher could.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/launch/process.h"
#include "tests/launch/traces.h"

namespace recollect::test {

// The variables of torchrun for one rank, with `per_node` ranks on each node.
Environment torchrun_variables(int rank, int size, int per_node, const std::string& address, uint16_t port);

class RanksByHand {
 public:
  explicit RanksByHand(const Workplace& place) : place_(place) {}

  // `PREFIX recollect train c.yaml WORDS` in a folder of its own, processN; the run's output goes to `out`
  // unless the words say otherwise.
  void start(const Environment& environment, const Words& words, const Words& prefix = {});
  Process& process(std::size_t rank) { return *processes_[rank]; }
  // Whether a few steps are done, before the bound and before any rank ends.
  bool wait_for_steps(std::chrono::seconds bound = Workplace::kBound) const;
  // In the order of their start. None leaves anything behind.
  std::vector<Finished> wait(std::chrono::seconds bound = Workplace::kBound);

 private:
  const Workplace& place_;
  Traces traces_;
  std::deque<std::unique_ptr<Process>> processes_;
};

// What training has computed, step by step, to the last bit.
std::vector<nlohmann::json> numbers(const std::vector<nlohmann::json>& metrics);

// A mesh of two by two ranks.
Words two_by_two(int64_t steps = 3);
// The numbers of that, from four threads of one process.
std::vector<nlohmann::json> two_by_two_in_one_process(const Workplace& place);

}  // namespace recollect::test
