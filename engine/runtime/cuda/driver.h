// The driver's own functions. They are asked for by name, so that the program starts where there is no
// driver.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "engine/runtime/cuda/check.h"

namespace recollect::cuda {

// `version`: as in the name of its type, PFN_cuMemCreate_v10020. Error kConfiguration where the driver lacks
// it.
template <typename Function>
Function driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess || !found)
    throw Error(ExitCode::kConfiguration, std::string("the NVIDIA driver has no function ") + name,
                "install a driver for CUDA 13");
  return reinterpret_cast<Function>(found);
}

}  // namespace recollect::cuda
