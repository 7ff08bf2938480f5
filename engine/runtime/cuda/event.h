// RAII wrappers of the CUDA runtime's events and streams.
#pragma once

#include <utility>

#include "engine/runtime/cuda/check.h"

namespace recollect::cuda {

class Event {
 public:
  Event() = default;
  explicit Event(unsigned flags) { check(cudaEventCreateWithFlags(&event_, flags), "making an event"); }
  ~Event() {
    if (event_) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  cudaEvent_t get() const { return event_; }
  explicit operator bool() const { return event_ != nullptr; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A stream that runs concurrently with all others, the default stream included.
class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace recollect::cuda
