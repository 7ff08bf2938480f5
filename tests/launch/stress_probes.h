// Disturbances that a correct program does not notice.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/runtime/executor.h"

namespace recollect::test {

// For one executor. Ops of side streams begin a little late, each time by another amount; memory that no
// value lives in any more is overwritten with 0xFF (a NaN in every floating-point type) before the compute
// stream's next op, and so are every workspace and the ring of requests to the disk before their op. What is
// on the disk stays as it is.
class StressProbe final : public ExecutorProbe {
 public:
  explicit StressProbe(uint64_t seed) : seed_(seed) {}

  void before_op(const Executor& executor, OpId id) override;

  uint64_t poisoned_bytes() const { return poisoned_bytes_; }
  uint64_t late_ops() const { return late_ops_; }

 private:
  struct Dead {
    std::byte* begin;
    uint64_t bytes;
  };

  void prepare(const Executor& executor);
  void be_late(OpId id);

  uint64_t seed_;
  std::once_flag prepared_;
  std::vector<std::vector<Dead>> dead_before_;  // by op of the compute stream
  std::atomic<uint64_t> calls_ = 0, late_ops_ = 0, poisoned_bytes_ = 0;
};

}  // namespace recollect::test
