#include "engine/runtime/cuda/device.h"

#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "engine/core/byte_count.h"
#include "engine/runtime/cuda/event.h"
#include "engine/runtime/cuda/shareable_memory.h"
#include "engine/runtime/cuda/streams.h"
#include "engine/runtime/pinned_memory.h"

namespace recollect::cuda {

namespace {

constexpr const char* kFewerBytes =
    "lower training.micro_batch_size, use more tensor-parallel ranks, recompute and offload more activations "
    "(recollect estimate CONFIG --compare), or keep fewer states: optimizer.name adamw8bit, "
    "optimizer.offload";

void free_device(std::byte* base, std::size_t) { cudaFree(base); }

// The disk needs whole blocks, but pinned memory may begin within one. The arena therefore begins at the next
// block boundary; the address to free is stored just before it.
std::byte* pin(std::size_t bytes, std::string& why) {
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes + kDiskBlock, cudaHostAllocPortable);
  if (status != cudaSuccess) {
    why = cudaGetErrorString(status);
    cudaGetLastError();
    return nullptr;
  }
  const auto behind = reinterpret_cast<std::uintptr_t>(memory) + sizeof memory;
  auto* const base = reinterpret_cast<std::byte*>((behind + kDiskBlock - 1) / kDiskBlock * kDiskBlock);
  std::memcpy(base - sizeof memory, &memory, sizeof memory);
  return base;
}

void free_pinned(std::byte* base, std::size_t) {
  void* memory = nullptr;
  std::memcpy(&memory, base - sizeof memory, sizeof memory);
  cudaFreeHost(memory);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options) : options_(options) {
    check(cudaSetDevice(options.ordinal), "choosing a device");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, options.ordinal), "asking for the device's properties");
    name_ = fmt::format("cuda:{} ({})", options.ordinal, properties.name);
    transfers_.emplace();
  }

  std::string name() const override { return name_; }

  Arena reserve(MemorySpace space, std::size_t bytes) override {
    if (bytes == 0) return Arena(0);
    return space == MemorySpace::kDevice
               ? reserve_device(bytes)
               : reserve_pinned(bytes, options_.pinned_required, {pin, free_pinned});
  }

  // Copies use a stream of their own and wait for it: a plain copy from pageable memory may return before the
  // device has the bytes.
  void write(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }

  std::unique_ptr<Streams> make_streams(StreamOps ops) override {
    return std::make_unique<DeviceStreams>(std::move(ops), options_.graphs);
  }

  std::optional<Memory> memory() const override {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return Memory{free, total};
  }
  std::string hardware() const override { return hardware_id(options_.ordinal); }

 private:
  Arena reserve_device(std::size_t bytes) {
    std::optional<Arena> shareable;
    if (options_.shareable) shareable = reserve_shareable(options_.ordinal, bytes);
    Arena arena = shareable ? std::move(*shareable) : reserve_plain(bytes);
    check(cudaMemsetAsync(arena.at(0), 0, bytes, transfers_->get()), "clearing the arena");
    check(cudaStreamSynchronize(transfers_->get()), "clearing the arena");
    return arena;
  }

  Arena reserve_plain(std::size_t bytes) {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(ExitCode::kDeviceMemory,
                  fmt::format("{} has no {} in one piece; {} are free", name_, byte_count(bytes),
                              byte_count(this->memory()->free)),
                  kFewerBytes);
    }
    check(status, "reserving the device's arena");
    return {static_cast<std::byte*>(memory), bytes, free_device};
  }

  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, transfers_->get()), "copying");
    check(cudaStreamSynchronize(transfers_->get()), "copying");
  }

  DeviceOptions options_;
  std::string name_;
  std::optional<Stream> transfers_;
};

}  // namespace

bool is_built() { return true; }

int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  int driver = 0;
  cudaDriverGetVersion(&driver);
  const std::string what = driver == 0 ? "no NVIDIA driver"
                           : status == cudaErrorNoDevice || count == 0
                               ? "no CUDA device that this process may use"
                               : cudaGetErrorString(status);
  throw Error(ExitCode::kConfiguration, "device.backend: cuda: there is " + what,
              "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or train with device.backend: cpu");
}

std::string hardware_id(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "asking for the device's properties");
  std::string id = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    id += kDigits[static_cast<unsigned char>(byte) >> 4];
    id += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return id;
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  const int count = device_count();
  if (options.ordinal < 0 || options.ordinal >= count)
    throw Error(ExitCode::kConfiguration,
                fmt::format("there is no CUDA device {}: this process sees {}", options.ordinal, count),
                "look at CUDA_VISIBLE_DEVICES");
  return std::make_unique<CudaDevice>(options);
}

}  // namespace recollect::cuda
