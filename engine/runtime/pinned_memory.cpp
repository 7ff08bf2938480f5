#include "engine/runtime/pinned_memory.h"

#include <cstring>

#include <fmt/format.h>

#include "engine/core/byte_count.h"
#include "engine/core/error.h"
#include "engine/io/standard_output.h"

namespace recollect {

Arena reserve_pinned(std::size_t bytes, bool required, const PinnedMemoryCalls& calls) {
  std::string why;
  if (std::byte* memory = calls.reserve(bytes, why)) {
    std::memset(memory, 0, bytes);
    return {memory, bytes, calls.release};
  }
  if (required)
    throw Error(ExitCode::kHostMemory,
                fmt::format("cannot pin {} of host memory: {}", byte_count(bytes), why),
                "raise the memory-lock limit (ulimit -l), or set device.pinned: preferred");
  warn("cannot pin {} of host memory ({}); copies will be slower", byte_count(bytes), why);
  return Arena(bytes);
}

}  // namespace recollect
