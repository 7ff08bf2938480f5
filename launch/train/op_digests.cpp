#include "launch/train/op_digests.h"

#include <algorithm>
#include <utility>

#include "engine/io/crc32c.h"

namespace recollect {

void OpDigests::begin(const Executor& executor) {
  digests_.assign(executor.program().graph.ops().size(), 0);
  of_ = &executor;
}

std::vector<uint32_t> OpDigests::end() {
  of_ = nullptr;
  return std::move(digests_);
}

int64_t OpDigests::first_difference(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  const auto [first, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return first == a.end() ? -1 : first - a.begin();
}

void OpDigests::before_op(const Executor& executor, OpId id) {
  if (next_) next_->before_op(executor, id);
}

void OpDigests::after_op(const Executor& executor, OpId id) {
  if (next_) next_->after_op(executor, id);
  if (of_ != &executor) return;
  const Op& op = executor.program().graph.op(id);
  if (op.when == RunWhen::kLastMicroBatch) return;  // it may be skipped; others may write there
  uint32_t digest = 0;
  for (const ValueId value : op.outputs) {
    if (value == kNone || executor.program().graph.value(value).space == MemorySpace::kDisk) continue;
    const Tensor tensor = executor.tensor(value);
    digest = crc32c({static_cast<const char*>(tensor.data), tensor.bytes()}, digest);
  }
  digests_[static_cast<std::size_t>(id)] = digest;
}

}  // namespace recollect
