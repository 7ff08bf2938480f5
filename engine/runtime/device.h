// Where a program runs: its memory, copies between it and the host, and the streams that carry ops. One per
// rank. On CPUs all of this is plain memory and threads.
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

  // Zeroed memory of its own (kDevice), or of the host where its copies reach it at full speed (kHost). Error
  // kDeviceMemory or kHostMemory where there is not so much.
  virtual Arena reserve(MemorySpace space, std::size_t bytes) = 0;

  // Whether the host reads and writes that arena by its addresses, from any thread.
  virtual bool is_addressable(MemorySpace space) const { return space == MemorySpace::kHost; }

  // Between ordinary host memory and an address of either arena; done on return.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;

  virtual std::unique_ptr<Streams> make_streams(StreamOps ops) = 0;

  // Its own memory as its driver counts it at this moment, everybody's use included; nothing where memory is
  // the host's.
  struct Memory {
    uint64_t free = 0, total = 0;
    uint64_t used() const { return total - free; }
  };
  virtual std::optional<Memory> memory() const { return {}; }

  // Which device that is, in the same words for every rank that uses it; empty where memory is the host's.
  virtual std::string hardware() const { return {}; }
};

std::unique_ptr<Device> make_cpu_device();

}  // namespace recollect
