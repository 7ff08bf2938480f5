// Memory of the device for a test, and the way there and back. Tests that need a device skip themselves where
// there is none.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "engine/runtime/cuda/device.h"
#include "engine/runtime/cuda/event.h"

namespace recollect::cuda {

inline bool has_device() {
  try {
    return device_count() > 0;
  } catch (const Error&) {
    return false;
  }
}

#define RECOLLECT_NEEDS_DEVICE() \
  if (!::recollect::cuda::has_device()) GTEST_SKIP() << "there is no CUDA device"

template <typename T>
class DeviceArray {
 public:
  // Filled with bytes that are not numbers, so that what is not written is seen.
  explicit DeviceArray(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "a test's memory");
    check(cudaMemset(data_, 0xff, count * sizeof(T)), "a test's memory");
    check(cudaDeviceSynchronize(), "a test's memory");  // streams of the tests do not wait for these
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { write(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return count_; }

  void write(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "writing");
    check(cudaDeviceSynchronize(), "writing");
  }
  std::vector<T> read() const {  // when all work is done
    std::vector<T> values(count_);
    check(cudaDeviceSynchronize(), "computing");
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "reading");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace recollect::cuda
