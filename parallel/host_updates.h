// Optimizer states and masters that are kept in the host's memory and updated there, by the host's processor. A parameter
// is updated in chunks of its elements: a chunk's gradient is copied to the host, an update of the host makes the new
// master, states and parameter of it, and the parameter is copied back. The three have a stream each, so that they
// go on beside each other, for different chunks. Every parameter has its master in the host's memory, in f32 too, or it would
// travel there first. That is for rules that treat each element by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/graph/op_builder.h"
#include "parallel/optimizers/rule.h"
#include "parallel/parameter.h"

namespace recollect {

// Where an update is: what it reads beside the parameter's own, and what it comes behind.
struct UpdatePlace {
  ValueId schedule = kNone, factor = kNone;
  bool on_host = false;
  std::vector<ValueId> after = {};
};

class HostUpdates {
 public:
  // `schedule` and `factor`: what updates read, on the device. The gradients are there when `factor` is made.
  HostUpdates(Graph& graph, const OpRegistry& registry, int64_t chunk_elements, ValueId schedule,
              ValueId factor);

  // A parameter, or a data rank's part of it, with the gradient on the device, and with the master and the states that are
  // updated in the host's memory. In the order of updates.
  void add(const Parameter& parameter);

  // The ops of the next parameter that was added. `update` appends those of one chunk, of which all is in the host's
  // memory. Returns what the last of them makes of the parameter on the device.
  using Update = std::function<void(const Parameter& chunk, const UpdatePlace& place)>;
  ValueId update_next(const Update& update);

  // The compute stream waits for all of them, so that it is known how long. Nothing where none was added.
  void finish();

  const OffloadReport& report() const { return report_; }

 private:
  struct Chunk {
    Parameter piece;           // with the master and the states; the other two are staged
    ValueId gradient = kNone;  // on the device
    ValueId parameter = kNone;
    bool is_last = false;  // of its parameter
  };
  // What chunks take turns in, in the host's memory.
  struct Slot {
    ValueId gradient = kNone, parameter = kNone;
  };

  ValueId host_memory(const std::string& name, const Shape& shape, DType dtype);
  ValueId staged(ValueId slot, ValueId chunk);
  ValueId copied(const std::string& name, ValueId value);
  void begin();
  void store(ValueId from, ValueId to, std::vector<ValueId> after);

  Graph& graph_;
  OpBuilder ops_;
  const int64_t chunk_elements_;
  const ValueId schedule_, factor_;
  UpdatePlace place_;
  std::vector<Chunk> chunks_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;  // to be updated
  OffloadReport report_;
};

}  // namespace recollect
