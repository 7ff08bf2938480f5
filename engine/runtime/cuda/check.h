// Turns the CUDA runtime's error codes into Errors.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "engine/core/error.h"

namespace recollect::cuda {

[[noreturn]] inline void fail(cudaError_t status, const std::string& what) {
  const ExitCode code = status == cudaErrorMemoryAllocation ? ExitCode::kDeviceMemory : ExitCode::kInternal;
  throw Error(code, what + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")",
              "compute-sanitizer or CUDA_LAUNCH_BLOCKING=1 may show where it began");
}

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(status, what);
}

}  // namespace recollect::cuda
