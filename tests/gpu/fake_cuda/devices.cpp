// Devices and errors.
#include <cstdio>
#include <cstring>

#include "tests/gpu/fake_cuda/call.h"
#include "tests/gpu/fake_cuda/cuda_runtime_api.h"

namespace recollect::fake_cuda {

Caller& caller() {
  static thread_local Caller caller;
  return caller;
}

}  // namespace recollect::fake_cuda

using namespace recollect::fake_cuda;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define RECOLLECT_CUDA_ERROR(name, number, text) \
  case name:                                     \
    return #name;
#include "tests/gpu/fake_cuda/errors.inc"
#undef RECOLLECT_CUDA_ERROR
  }
  return "unrecognized error code";
}

// Of a device that a kernel has brought down, what that kernel did.
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorLaunchFailure && !is_device_work()) {
    World& w = world();
    const World::Lock lock = w.lock();
    if (const std::string& death = w.death(caller().device); !death.empty()) return death.c_str();
  }
  switch (error) {
#define RECOLLECT_CUDA_ERROR(name, number, text) \
  case name:                                     \
    return text;
#include "tests/gpu/fake_cuda/errors.inc"
#undef RECOLLECT_CUDA_ERROR
  }
  return "unrecognized error code";
}

// Of a dead device it stays.
cudaError_t cudaGetLastError() {
  const cudaError_t status = call([](World&, World::Lock&) { return cudaSuccess; });
  const cudaError_t last = std::exchange(caller().last_error, cudaSuccess);
  return status != cudaSuccess ? status : last;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = world().settings().devices;
  return said(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= world().settings().devices) return said(cudaErrorInvalidDevice);
  caller().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = caller().device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= world().settings().devices) return said(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Fake GPU");
  std::memcpy(properties->uuid.bytes, &device, sizeof device);
  properties->totalGlobalMem = world().settings().memory;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return call([](World& w, World::Lock& lock) {
    if (w.capture_forbids()) return cudaErrorStreamCaptureUnsupported;
    w.finish_all(caller().device, lock);
    return w.death(caller().device).empty() ? cudaSuccess : cudaErrorLaunchFailure;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&](World& w, World::Lock&) {
    *total = w.settings().memory;
    *free = *total - w.memory().used(caller().device);
    return cudaSuccess;
  });
}
