// Functions of the CUDA driver. They are looked up by name at run time, so that the program also starts where
// there is no driver.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "engine/runtime/cuda/check.h"

namespace recollect::cuda {

// `version`: as in the name of its type, PFN_cuMemCreate_v10020. Throws Error kConfiguration if the driver
// lacks the function.
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
