// Reads logits of any type to host memory as doubles.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/runtime/executor.h"

namespace recollect {

// `logits` must outlive forward, which has run. `bytes` is scratch memory. Both vectors keep their memory.
void read_logits(const Executor& executor, ValueId logits, std::vector<std::byte>& bytes,
                 std::vector<double>& numbers);

}  // namespace recollect
