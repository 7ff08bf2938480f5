// The CPU device: arenas are ordinary memory, copies are memcpy, and streams are threads of this process.
#include <cstring>

#include "engine/runtime/device.h"
#include "engine/runtime/worker_streams.h"

namespace recollect {

namespace {

class CpuDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  Arena reserve(MemorySpace, std::size_t bytes) override { return Arena(bytes); }
  bool is_addressable(MemorySpace) const override { return true; }
  void write(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  std::unique_ptr<Streams> make_streams(StreamOps ops) override {
    return std::make_unique<WorkerStreams>(std::move(ops), threads_);
  }

 private:
  StreamThreads threads_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace recollect
