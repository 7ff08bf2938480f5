// Replaces this folder in a build without CUDA. Every use of the backend throws an Error that says what is
// missing.
#include "engine/runtime/cuda/device.h"
#include "engine/runtime/cuda/enqueue.h"

namespace recollect::cuda {

namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::kConfiguration, "this recollect was built without its CUDA backend",
              "build it where nvcc is: cmake --preset cuda && cmake --build --preset cuda");
}

}  // namespace

bool is_built() { return false; }
int device_count() { refuse(); }
std::unique_ptr<Device> make_device(const DeviceOptions&) { refuse(); }

void copy_bytes(void*, const void*, std::size_t, void*) { refuse(); }
void clear_bytes(void*, std::size_t, void*) { refuse(); }
void convert(const Tensor&, const Tensor&, void*) { refuse(); }
void accumulate(const Tensor&, const Tensor&, void*) { refuse(); }
void hash_bytes(const void*, std::size_t, int64_t*, void*) { refuse(); }
void call_on_host(void (*)(void*), void*, void*) { refuse(); }
std::shared_ptr<void> make_host_cell(std::size_t) { refuse(); }

}  // namespace recollect::cuda
