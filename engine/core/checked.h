// Arithmetic on sizes that throws an Error instead of wrapping around.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/error.h"

namespace recollect {

[[noreturn]] inline void refuse_size(const std::string& what) {
  throw Error(ExitCode::kDeviceMemory, what + " is more than 64 bits count",
              "lower training.micro_batch_size, data.sequence_length or the sizes of the model");
}

inline uint64_t checked_sum(uint64_t a, uint64_t b, const std::string& what) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) refuse_size(what);
  return sum;
}

}  // namespace recollect
