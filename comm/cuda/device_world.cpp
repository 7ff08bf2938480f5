// make_device_world() with the real parts: the GPU, the NCCL library, the process's environment.
#include "comm/device_world.h"

#include <dlfcn.h>

#include <cstdlib>

#include "comm/cuda/runtime.h"
#include "comm/device/make_device_world.h"
#include "engine/nvidia/library.h"
#include "engine/runtime/cuda/device.h"

namespace recollect {

namespace {

nccl::Api load_nccl() {
  const cuda::Library library(cuda::nccl_name(), cuda::search_places(cuda::SearchEnvironment::of_process()));
  void* const handle = library.handle();  // stays loaded
  return nccl::load_api([handle](const char* name) { return dlsym(handle, name); }, library.path());
}

}  // namespace

std::unique_ptr<Communicator> make_device_world(Communicator& world, const DeviceWorldOptions& options) {
  if (const int count = cuda::device_count(); options.device < 0 || options.device >= count)
    throw Error(ExitCode::kConfiguration,
                "there is no CUDA device " + std::to_string(options.device) + ": this process sees " +
                    std::to_string(count),
                "look at CUDA_VISIBLE_DEVICES");
  return device::make_device_world(
      world, options,
      {.runtime = cuda::make_device_runtime(options.device),
       .load_nccl = load_nccl,
       .environment = [](const char* name) -> const char* { return std::getenv(name); },
       .set_environment = [](const std::string& name,
                             const std::string& value) { ::setenv(name.c_str(), value.c_str(), 0); },
       .end_process = device::end_process});
}

}  // namespace recollect
