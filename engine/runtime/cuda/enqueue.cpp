#include "engine/runtime/cuda/enqueue.h"

#include <cstring>

#include "engine/runtime/cuda/check.h"

namespace recollect::cuda {

void copy_bytes(void* to, const void* from, std::size_t bytes, void* stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)), "copying");
}

void clear_bytes(void* to, std::size_t bytes, void* stream) {
  check(cudaMemsetAsync(to, 0, bytes, static_cast<cudaStream_t>(stream)), "clearing");
}

void call_on_host(void (*function)(void*), void* argument, void* stream) {
  check(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), function, argument), "calling the host");
}

std::shared_ptr<void> make_host_cell(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "reserving a host cell");
  std::memset(memory, 0, bytes);
  return {memory, [](void* cell) { cudaFreeHost(cell); }};
}

}  // namespace recollect::cuda
