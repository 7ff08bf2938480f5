// Computes digests of the outputs of every op of a micro-batch, so that the micro-batch can be run twice and
// the bits compared (numerics.verify_every). This finds faulty processors, which can spoil large trainings
// unnoticed. It works on memory that the host can read; values on a disk are checked after they are back.
// Outside of begin() and end() it costs one comparison per op.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/runtime/executor.h"

namespace recollect {

class OpDigests final : public ExecutorProbe {
 public:
  // Calls are forwarded to the probe `next`, if any.
  explicit OpDigests(ExecutorProbe* next) : next_(next) {}

  // Call both between runs: begin() before the run to record, end() after it.
  void begin(const Executor& executor);
  std::vector<uint32_t> end();  // one digest per op
  // The first op with different digests, or -1.
  static int64_t first_difference(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b);

  void before_op(const Executor& executor, OpId id) override;
  void after_op(const Executor& executor, OpId id) override;

 private:
  ExecutorProbe* next_;
  const Executor* of_ = nullptr;  // the recorded executor
  std::vector<uint32_t> digests_;
};

}  // namespace recollect
