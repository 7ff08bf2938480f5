// The training step as data. Ops stand in program order. Every value is written by exactly one op, except
// accumulators (parameter gradients, the loss), which several ops add into in program order, and external
// values (parameters, inputs), which no op of this graph writes first. Shapes are those of one rank; every
// rank holds the same graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/tensor.h"
#include "engine/graph/attributes.h"
#include "engine/graph/placement.h"

namespace recollect {

using ValueId = int32_t;
using OpId = int32_t;
using GroupId = int32_t;
inline constexpr ValueId kNone = -1;  // an optional input that is absent

enum class Category : uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,
  kWorkspace,
  kCommunication,
  kInput,
  kCache,  // keys and values of tokens that generation has read
};
inline constexpr int kCategoryCount = 8;
inline constexpr int kStepCategoryCount = 7;  // of a training step, which has no cache
std::string_view name_of(Category category);

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };
inline constexpr int kPhaseCount = 3;
std::string_view name_of(Phase phase);

// Which arena a value lives in, or that it is in a file.
enum class MemorySpace : uint8_t { kDevice, kHost, kDisk };
inline constexpr int kMemorySpaceCount = 3;
std::string_view name_of(MemorySpace space);

struct Value {
  std::string name;  // a path: "layer3/mlp/fc1"
  Shape shape;
  DType dtype = DType::kF32;
  Category category = Category::kActivation;
  Placement placement = {};
  MemorySpace space = MemorySpace::kDevice;
  bool pooled = false;       // given its place by a run-time allocator instead of by the plan of lifetimes
  bool persistent = false;   // lives in the persistent region, across programs and steps
  bool accumulator = false;  // many ops may add into it
  OpId producer = kNone;     // the first writer; kNone for external values
  GroupId group = kNone;     // by Graph::add_group
  ValueId part_of = kNone;  // it lies in the memory of that value, of the same kind, so many bytes behind its
  uint64_t part_offset =
      0;           // beginning. What orders the ops on the two are ops that read one and write the other
  int layer = -1;  // -1 outside the layers
  uint64_t bytes() const { return static_cast<uint64_t>(shape.elements()) * size_of(dtype); }
};

// Values that are one buffer, wherever the layout puts it: they stand in this order, each on the next
// boundary of an arena's alignment, and the buffer ends on a multiple of `multiple`. What lies between and
// behind the members is padding. Of persistent values it is zero for ever: arenas begin with zeros, an op
// writes no further than its values reach, and what an op does to a whole group must keep zeros (a sum over
// ranks does). Of others it holds what was there before.
struct Group {
  std::string name;
  std::vector<ValueId> members;
  uint64_t multiple = kAlignment;
  std::vector<uint64_t> rooms = {};    // bytes kept for each member; empty: what it takes
  std::vector<uint64_t> offsets = {};  // by member; this and what follows is filled in by Graph::add_group
  uint64_t bytes = 0;                  // of the buffer
};

// How an op that writes accumulators treats what they hold.
enum class Accumulate : uint8_t {
  kNever,                 // overwrite
  kAfterFirstMicroBatch,  // overwrite in the first micro-batch of a step, add in the others
  kAlways,                // add
};

enum class RunWhen : uint8_t {
  kAlways,
  kOnce,  // first of all after what persists was written from outside; what it makes persists, for the run
  kFirstMicroBatch,  // of a step or of an evaluation: what it makes persists, and stands for the other micro-batches too
  kLastMicroBatch,
};

// Why an op is in the program.
enum class Role : uint8_t {
  kStep,       // the step's own work, and the moves of what it made
  kRecompute,  // it makes an activation again that was not saved
  kGather,     // it gathers an activation again of which the ranks saved their parts
  kVerify,     // it compares such an activation, or one that was fetched, with what forward made
};

enum class StreamId : uint8_t {
  kCompute,
  kCommunication,
  kGather,
  kDeviceToHost,
  kHostToDevice,
  kDisk,
  kHost,  // what the host's processor computes for a device
};
inline constexpr int kStreamCount = 7;
std::string_view name_of(StreamId stream);

struct OpDef;

struct Op {
  const OpDef* def = nullptr;
  std::string name = {};
  Attributes attributes = {};
  std::vector<ValueId> inputs = {};  // kNone where an optional input is absent
  std::vector<ValueId> outputs = {};
  int layer = -1;
  std::string block = {};  // the part of the layer that selective recomputation can name: "mlp"; "" is none
  Phase phase = Phase::kForward;
  Accumulate accumulate = Accumulate::kNever;
  RunWhen when = RunWhen::kAlways;
  Role role = Role::kStep;
  StreamId stream = StreamId::kCompute;
  int64_t first_sample = 0;  // of the micro-batch, the sample in row 0
  // Values that must have been made before this op begins, though it does not read them: what keeps a side
  // stream from running too far ahead.
  std::vector<ValueId> after = {};
};

// The ids 0, 1, ... below an end, to go through.
class Ids {
 public:
  explicit Ids(std::size_t end) : end_(static_cast<int32_t>(end)) {}

  class Iterator {
   public:
    explicit Iterator(int32_t id) : id_(id) {}
    int32_t operator*() const { return id_; }
    Iterator& operator++() { return ++id_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    int32_t id_;
  };
  Iterator begin() const { return Iterator(0); }
  Iterator end() const { return Iterator(end_); }

 private:
  int32_t end_;
};

class Graph {
 public:
  ValueId add_value(Value value);
  // Appends the op and infers its outputs' shapes and dtypes. `outputs` may name existing accumulators; kNone
  // entries and missing ones become fresh values named after the op.
  OpId add_op(Op op);
  // The same for an op that gets its place later (graph_edit.h).
  void infer_outputs(Op& op);

  const Value& value(ValueId id) const { return values_.at(id); }
  Value& value(ValueId id) { return values_.at(id); }
  const Op& op(OpId id) const { return ops_.at(id); }
  Op& op(OpId id) { return ops_.at(id); }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Op>& ops() const { return ops_; }
  Ids op_ids() const { return Ids(ops_.size()); }
  Ids value_ids() const { return Ids(values_.size()); }
  // Replaces the program order wholesale; producers are recomputed. For passes.
  void set_ops(std::vector<Op> ops);
  ValueId find(std::string_view name) const;  // kNone when there is none

  // Error kInternal unless the members are in no group yet, and alike in dtype, category, memory space,
  // pooling and persistence.
  GroupId add_group(Group group);
  const Group& group(GroupId id) const { return groups_.at(id); }
  const std::vector<Group>& groups() const { return groups_; }
  // Of a value that has a group: its place among the members.
  std::size_t place_in_group(ValueId value) const;
  // Bytes that are kept for a value, padding included.
  uint64_t room_of(ValueId value) const;

 private:
  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<Group> groups_;
};

}  // namespace recollect
