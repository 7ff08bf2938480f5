// How every function of the fake runtime is called: one at a time, not by what runs on a device, and in vain where the
// device is dead. What it returns is the thread's last error.
#pragma once

#include "tests/gpu/fake_cuda/world.h"

namespace recollect::fake_cuda {

// The calling thread's.
struct Caller {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};
Caller& caller();

inline cudaError_t said(cudaError_t status) {
  if (status != cudaSuccess) caller().last_error = status;
  return status;
}

// function(World&, World::Lock&) -> cudaError_t
template <typename Function>
cudaError_t call(Function function) {
  if (is_device_work()) return cudaErrorNotPermitted;
  World& w = world();
  World::Lock lock = w.lock();
  const auto device = static_cast<std::size_t>(caller().device);
  const bool dead =
      device < static_cast<std::size_t>(w.settings().devices) && !w.death(caller().device).empty();
  return said(dead ? cudaErrorLaunchFailure : function(w, lock));
}

// A job that is done in one step.
template <typename Function>
class OneStep final : public Job {
 public:
  explicit OneStep(Function function) : function_(std::move(function)) {}
  bool step(bool) override {
    function_();
    return true;
  }

 private:
  Function function_;
};
template <typename Function>
std::unique_ptr<Job> job_of(Function function) {
  return std::make_unique<OneStep<Function>>(std::move(function));
}

// As `call`, of what is put on a stream, which is one of the calling thread's device.
template <typename Function>
cudaError_t call_on(cudaStream_t stream, Function function) {
  return call([&](World& w, World::Lock& lock) {
    if (!w.streams.contains(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture && stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    return function(w, lock);
  });
}

}  // namespace recollect::fake_cuda
