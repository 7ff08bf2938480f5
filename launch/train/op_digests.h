// Digests of what every op of a micro-batch writes, so that the same micro-batch can be computed again and the bits
// compared: processors that compute wrongly now and then are how large trainings are spoilt unseen (numerics.verify_every).
// For memory that the host can look at; what is on a disk is looked at when it is back. Outside of begin() and end()
// an op costs one comparison.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/runtime/executor.h"

namespace recollect {

class OpDigests final : public ExecutorProbe {
 public:
  // `next`, if any, is called as if it were the executor's own probe.
  explicit OpDigests(ExecutorProbe* next) : next_(next) {}

  // Between runs: of the ops of the run that follows, until end().
  void begin(const Executor& executor);
  std::vector<uint32_t> end();  // by op
  // The first op of which two differ, or -1.
  static int64_t first_difference(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b);

  void before_op(const Executor& executor, OpId id) override;
  void after_op(const Executor& executor, OpId id) override;

 private:
  ExecutorProbe* next_;
  const Executor* of_ = nullptr;  // the one that is recorded
  std::vector<uint32_t> digests_;
};

}  // namespace recollect
