// Logits of any type as numbers of the host.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/runtime/executor.h"

namespace recollect {

// `logits` is a value that outlives forward, which has been run. `bytes` is scratch; both vectors keep their memory.
void read_logits(const Executor& executor, ValueId logits, std::vector<std::byte>& bytes,
                 std::vector<double>& numbers);

}  // namespace recollect
