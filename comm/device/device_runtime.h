// What collectives ask of a rank's device: order on streams, copies, sums, and words in host memory that
// streams write. One per rank. Streams are the device's native ones and belong to the caller. All but
// make_current() are called by the rank's threads only; `stream` is never dereferenced here.
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
  // Names the hardware: the same for all who use it, in whatever process, and for nobody else.
  virtual std::string hardware_id() const = 0;
  virtual uint64_t node() const { return this_node(); }  // that it is in
  virtual std::size_t free_bytes() const = 0;

  // An event that nobody has recorded counts as past. A wait is for the latest record that was made before
  // it.
  virtual void* make_event() = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record(void* event, void* stream) = 0;
  virtual void wait(void* stream, void* event) = 0;

  virtual void copy(void* to, const void* from, std::size_t bytes, void* stream) = 0;
  // As reduce_parts() of comm/reduction.h, bit for bit; the addresses of `parts` are read before this
  // returns.
  virtual void reduce(DType dtype, ReduceOp op, const void* const* parts, int count, void* out,
                      int64_t elements, void* stream) = 0;

  // Zeroed words of host memory for write_word(), and for any thread to read as atomics.
  virtual std::shared_ptr<uint32_t> make_words(std::size_t count) = 0;
  virtual void write_word(uint32_t* word, uint32_t value, void* stream) = 0;
  virtual uint64_t capture_of(void* stream) const = 0;  // a number of its own; 0 where nothing is captured

  // Whether other processes' devices of this node could map this memory.
  virtual bool is_shareable(const void* memory) const = 0;
};

}  // namespace recollect::device
