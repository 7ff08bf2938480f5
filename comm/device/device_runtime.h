// The device functions that collectives use: order on streams, copies, sums, and words in host memory that
// streams write. Each rank has one. Streams are the device's native ones and belong to the caller; `stream`
// is never dereferenced here. Only the rank's own threads call these functions, except make_current().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/device/places.h"

namespace recollect::device {

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  virtual void make_current() = 0;  // for the calling thread
  // Names the hardware: the same text in every process that uses it, and different from all other devices.
  virtual std::string hardware_id() const = 0;
  virtual uint64_t node() const { return this_node(); }  // the node that the device is in
  virtual std::size_t free_bytes() const = 0;

  // An event that was never recorded counts as past. wait() waits for the latest record made before the call.
  virtual void* make_event() = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record(void* event, void* stream) = 0;
  virtual void wait(void* stream, void* event) = 0;

  virtual void copy(void* to, const void* from, std::size_t bytes, void* stream) = 0;
  // Like reduce_parts() of comm/reduction.h, bit for bit. The array `parts` is read before this returns.
  virtual void reduce(DType dtype, ReduceOp op, const void* const* parts, int count, void* out,
                      int64_t elements, void* stream) = 0;

  // Returns zeroed words of host memory: streams write them with write_word(), any thread reads them as
  // atomics.
  virtual std::shared_ptr<uint32_t> make_words(std::size_t count) = 0;
  virtual void write_word(uint32_t* word, uint32_t value, void* stream) = 0;
  virtual uint64_t capture_of(void* stream) const = 0;  // unique number of the capture; 0: none

  // Returns true if devices of other processes on this node could map this memory.
  virtual bool is_shareable(const void* memory) const = 0;
};

}  // namespace recollect::device
