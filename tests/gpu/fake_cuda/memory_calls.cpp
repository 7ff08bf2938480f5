// Memory, and what is copied between its kinds.
#include <cstring>
#include <vector>

#include "tests/gpu/fake_cuda/call.h"

using namespace recollect::fake_cuda;

namespace {

// What must wait for devices, and so may not be asked for in a capture.
template <typename Function>
cudaError_t call_that_waits(Function function) {
  return call([&](World& w, World::Lock& lock) {
    return w.capture_forbids() ? cudaErrorStreamCaptureUnsupported : function(w, lock);
  });
}

// Runs what has just been put on a stream. A capture cannot hold such a thing.
cudaError_t finish_now(World& w, cudaStream_t stream, World::Lock& lock) {
  w.finish(w.mark(stream), lock);
  return w.death(stream->device).empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

cudaError_t copy(World& w, World::Lock& lock, void* to, const void* from, std::size_t bytes,
                 cudaMemcpyKind kind, cudaStream_t stream) {
  const auto target = w.memory().place_of(to, bytes), source = w.memory().place_of(from, bytes);
  if (!target || !source) return cudaErrorInvalidValue;
  const bool down = *source != Place::kDevice && *target == Place::kDevice;
  const bool up = *source == Place::kDevice && *target != Place::kDevice;
  if ((kind == cudaMemcpyHostToDevice && !down) || (kind == cudaMemcpyDeviceToHost && !up))
    return cudaErrorInvalidValue;
  const bool pageable = *target == Place::kPageable || *source == Place::kPageable;
  if (!pageable) {
    w.put(stream, job_of([=] { std::memcpy(to, from, bytes); }),
          down || up ? w.copy_cost(bytes) : w.kernel_cost());
    return cudaSuccess;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (*target != Place::kPageable) {  // its bytes are taken now, and may be gone before they are there
    std::vector<std::byte> taken(static_cast<const std::byte*>(from),
                                 static_cast<const std::byte*>(from) + bytes);
    w.put(stream, job_of([to, taken = std::move(taken)] { std::memcpy(to, taken.data(), taken.size()); }));
    return cudaSuccess;
  }
  w.put(stream, job_of([=] { std::memcpy(to, from, bytes); }));
  return finish_now(w, stream, lock);
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = nullptr;
  return call_that_waits([&](World& w, World::Lock&) {
    if (bytes == 0) return cudaSuccess;
    if (bytes > w.settings().memory - w.memory().used(caller().device)) return cudaErrorMemoryAllocation;
    *memory = w.memory().reserve(bytes, Place::kDevice, caller().device);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

// Waits for the devices, as CUDA's does.
cudaError_t cudaFree(void* memory) {
  return call_that_waits([&](World& w, World::Lock& lock) {
    if (!memory) return cudaSuccess;
    w.finish_all(caller().device, lock);
    return w.memory().release(static_cast<std::byte*>(memory), Place::kDevice) ? cudaSuccess
                                                                               : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  *memory = nullptr;
  return call_that_waits([&](World& w, World::Lock&) {
    if ((flags & ~(cudaHostAllocPortable | cudaHostAllocMapped)) != 0) return cudaErrorInvalidValue;
    if (bytes == 0) return cudaSuccess;
    if (bytes > w.settings().pinned - w.pinned) return cudaErrorMemoryAllocation;
    *memory = w.memory().reserve(bytes, Place::kPinned, caller().device);
    if (*memory) w.pinned += bytes;
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return call_that_waits([&](World& w, World::Lock& lock) {
    if (!memory) return cudaSuccess;
    w.finish_all(-1, lock);
    const Piece* piece = w.memory().find(memory);
    const std::size_t bytes = piece ? piece->bytes : 0;
    if (!w.memory().release(static_cast<std::byte*>(memory), Place::kPinned)) return cudaErrorInvalidValue;
    w.pinned -= bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (!stream) return enqueue(nullptr, [=] { std::memcpy(to, from, bytes); });
  return call_on(stream, [&](World& w, World::Lock& lock) {
    return bytes == 0 ? cudaSuccess : copy(w, lock, to, from, bytes, kind, stream);
  });
}

// A pass over memory as kernels are, where these are counted.
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  RECOLLECT_LAUNCHES();
  if (!stream) return enqueue(nullptr, [=] { std::memset(to, value, bytes); });
  return call_on(stream, [&](World& w, World::Lock&) {
    const auto place = w.memory().place_of(to, bytes);
    if (!place || *place == Place::kPageable) return cudaErrorInvalidValue;
    w.put(stream, job_of([=] { std::memset(to, value, bytes); }), w.kernel_cost());
    return cudaSuccess;
  });
}
