// Predicts how much host memory a program itself takes: its lists of ops and values with their names, its
// kernels, and the operands that its executor binds. The bytes are counted, not measured: threads share
// heaps, and a prediction must come before the program exists.
#pragma once

#include <cstdint>

#include "engine/runtime/program.h"

namespace recollect {

// Both return bytes, accurate to a few per cent, because every kernel counts with a mean size.
// executor_host_bytes() is what an executor of the program adds.
uint64_t host_bytes_of(const Program& program);
uint64_t executor_host_bytes(const Program& program);

}  // namespace recollect
