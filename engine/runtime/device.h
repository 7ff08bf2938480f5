// A Device is the place where one rank's program runs: its memory, the copies between it and the host, and
// the streams that execute ops. Each rank has exactly one. The CPU device uses ordinary memory and threads.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "engine/core/arena.h"
#include "engine/core/tensor.h"
#include "engine/graph/graph.h"
#include "engine/runtime/streams.h"

namespace recollect {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 (NVIDIA H200)"

  // Reserves zeroed memory: the device's own (kDevice), or host memory that the device copies from and to at
  // full speed (kHost). Throws Error kDeviceMemory or kHostMemory if there is not enough.
  virtual Arena reserve(MemorySpace space, std::size_t bytes) = 0;

  // Returns true if the host may read and write that arena through its addresses, from any thread.
  virtual bool is_addressable(MemorySpace space) const { return space == MemorySpace::kHost; }

  // Copies between ordinary host memory and an address in either arena. The copy is complete on return.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;

  virtual std::unique_ptr<Streams> make_streams(StreamOps ops) = 0;

  // The device's memory as its driver reports it now, including what other processes use. Empty for a device
  // that uses host memory.
  struct Memory {
    uint64_t free = 0, total = 0;
    uint64_t used() const { return total - free; }
  };
  virtual std::optional<Memory> memory() const { return {}; }

  // Identifies the physical device: the same text for every rank that uses it. Empty for a device that uses
  // host memory.
  virtual std::string hardware() const { return {}; }
};

std::unique_ptr<Device> make_cpu_device();

}  // namespace recollect
