// What a program takes of the host's memory by being there: its lists of ops and values with their names, its kernels,
// and the operands that its executor binds. Counted, not measured: heaps are shared by threads, and a
// prediction comes before what it predicts.
#pragma once

#include <cstdint>

#include "engine/runtime/program.h"

namespace recollect {

// Bytes, to some per cent: of a kernel's own size a mean is taken. The second is what an executor of it adds.
uint64_t host_bytes_of(const Program& program);
uint64_t executor_host_bytes(const Program& program);

}  // namespace recollect
