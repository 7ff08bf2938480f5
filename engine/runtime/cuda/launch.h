// How kernels are launched, and how they declare shared memory. Everything here uses the CUDA runtime's own
// names, so that tests/gpu/emulation can replace the runtime and run the same sources on a CPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "engine/runtime/cuda/check.h"
#include "engine/runtime/cuda/cut.h"

// Shared memory of a block: RECOLLECT_SHARED is one variable of a type, which may be an array;
// RECOLLECT_DYNAMIC_SHARED is the memory that the launch asks for, as an array.
#ifndef RECOLLECT_SHARED
#define RECOLLECT_SHARED(name, ...) __shared__ std::type_identity_t<__VA_ARGS__> name
#define RECOLLECT_DYNAMIC_SHARED(name, type)                         \
  extern __shared__ __align__(16) unsigned char recollect_dynamic[]; \
  type* const name = reinterpret_cast<type*>(recollect_dynamic)
#endif

// Hooks that count launches and the bytes read and written through element.h. They are empty on a device;
// tests define them.
#ifndef RECOLLECT_LAUNCHES
#define RECOLLECT_LAUNCHES()
#define RECOLLECT_READS(address, bytes)
#define RECOLLECT_WRITES(address, bytes)
#endif

namespace recollect::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

inline dim3 grid_of(int64_t x, int64_t y = 1) {
  require(x < (int64_t{1} << 31) && y < 65536, "a grid of too many blocks");
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
}

// Enqueues a kernel on `stream`, a cudaStream_t.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, void* stream,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  RECOLLECT_LAUNCHES();
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "a kernel's launch");
}

// Must be called once before a kernel is launched with more than 48 KiB of dynamic shared memory.
template <typename... Parameters>
void allow_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "a kernel's shared memory");
}

// The same for a device that may have less shared memory: returns false if it has not enough.
template <typename... Parameters>
bool shares(void (*kernel)(Parameters...), std::size_t bytes) {
  if (cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(bytes)) == cudaSuccess)
    return true;
  cudaGetLastError();  // clears the error, since the result tells it
  return false;
}

}  // namespace recollect::cuda
