#include "comm/cuda/runtime.h"

#include <cstring>

#include "comm/cuda/reduce_parts.h"
#include "comm/device_local/device_local_communicator.h"
#include "engine/runtime/cuda/device.h"
#include "engine/runtime/cuda/driver.h"

namespace recollect::cuda {

static_assert(device_local::kMostRanks <= kMostParts);

namespace {

cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(void* event) { return static_cast<cudaEvent_t>(event); }

class CudaRuntime final : public device::DeviceRuntime {
 public:
  explicit CudaRuntime(int ordinal) : ordinal_(ordinal) {
    make_current();
    write_value_ = driver_function<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32", 11070);
    retain_ = driver_function<PFN_cuMemRetainAllocationHandle_v11000>("cuMemRetainAllocationHandle", 11000);
    release_ = driver_function<PFN_cuMemRelease_v10020>("cuMemRelease", 10020);
  }

  void make_current() override { check(cudaSetDevice(ordinal_), "choosing a device"); }

  std::string hardware_id() const override { return cuda::hardware_id(ordinal_); }

  std::size_t free_bytes() const override {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
  }

  void* make_event() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    return event;
  }
  void destroy_event(void* event) noexcept override { cudaEventDestroy(native_event(event)); }
  void record(void* event, void* stream) override {
    check(cudaEventRecord(native_event(event), native(stream)), "recording an event");
  }
  void wait(void* stream, void* event) override {
    check(cudaStreamWaitEvent(native(stream), native_event(event), 0), "waiting for an event");
  }

  void copy(void* to, const void* from, std::size_t bytes, void* stream) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "copying");
  }
  void reduce(DType dtype, ReduceOp op, const void* const* parts, int count, void* out, int64_t elements,
              void* stream) override {
    reduce_parts(dtype, op, parts, count, out, elements, stream);
  }

  // Pinned memory has one address for the host and for all devices.
  std::shared_ptr<uint32_t> make_words(std::size_t count) override {
    void* words = nullptr;
    check(cudaHostAlloc(&words, count * sizeof(uint32_t), cudaHostAllocMapped | cudaHostAllocPortable),
          "pinning the words in which streams note their progress");
    std::memset(words, 0, count * sizeof(uint32_t));
    return {static_cast<uint32_t*>(words), [](uint32_t* memory) { cudaFreeHost(memory); }};
  }

  // This also works in a captured graph.
  void write_word(uint32_t* word, uint32_t value, void* stream) override {
    const CUresult status = write_value_(static_cast<CUstream>(stream), reinterpret_cast<CUdeviceptr>(word),
                                         value, CU_STREAM_WRITE_VALUE_DEFAULT);
    require(status == CUDA_SUCCESS,
            "a stream cannot note its progress: driver error " + std::to_string(status));
  }

  uint64_t capture_of(void* stream) const override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    check(cudaStreamGetCaptureInfo(native(stream), &status, &id), "asking whether a stream is captured");
    return status == cudaStreamCaptureStatusNone ? 0 : id;
  }

  // Returns true for memory that the driver maps piece by piece; plain cudaMalloc's memory is not shareable.
  bool is_shareable(const void* memory) const override {
    CUmemGenericAllocationHandle handle = 0;
    if (retain_(&handle, const_cast<void*>(memory)) != CUDA_SUCCESS) return false;
    release_(handle);
    return true;
  }

 private:
  const int ordinal_;
  PFN_cuStreamWriteValue32_v11070 write_value_ = nullptr;
  PFN_cuMemRetainAllocationHandle_v11000 retain_ = nullptr;
  PFN_cuMemRelease_v10020 release_ = nullptr;
};

}  // namespace

std::unique_ptr<device::DeviceRuntime> make_device_runtime(int ordinal) {
  return std::make_unique<CudaRuntime>(ordinal);
}

}  // namespace recollect::cuda
