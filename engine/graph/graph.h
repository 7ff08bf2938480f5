// A Graph is the training step as data. Its ops are in program order. Every value is written by exactly one
// op, with two exceptions: several ops add into an accumulator (parameter gradients, the loss), in program
// order, and external values (parameters, inputs) have contents before any op of this graph writes them.
// Shapes are those of one rank; every rank holds the same graph.
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
inline constexpr ValueId kNone = -1;  // no value, such as an absent optional input

enum class Category : uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,
  kWorkspace,
  kCommunication,
  kInput,
  kCache,  // keys and values of tokens that generation has processed
};
inline constexpr int kCategoryCount = 8;
inline constexpr int kStepCategoryCount = 7;  // those of a training step, which has no cache
std::string_view name_of(Category category);

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };
inline constexpr int kPhaseCount = 3;
std::string_view name_of(Phase phase);

// The arena that a value lives in, or kDisk for a file.
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
  bool pooled = false;       // placed by a run-time allocator instead of by the plan of lifetimes
  bool persistent = false;   // lives in the persistent region, which programs and steps share
  bool accumulator = false;  // many ops may add into it
  OpId producer = kNone;     // the first writer; kNone for external values
  GroupId group = kNone;     // set by Graph::add_group
  // A value with `part_of` lies inside the memory of that value, which is of the same kind, `part_offset`
  // bytes after its beginning. Ops on the two are ordered by ops that read the one and write the other.
  ValueId part_of = kNone;
  uint64_t part_offset = 0;
  int layer = -1;  // -1 outside the layers
  uint64_t bytes() const { return static_cast<uint64_t>(shape.elements()) * size_of(dtype); }
};

// Values that form one buffer, wherever the layout puts it. The members are stored in this order, each at the
// next multiple of an arena's alignment, and the size of the buffer is a multiple of `multiple`. The bytes
// between and after the members are padding. The padding of persistent values is always zero: arenas begin
// with zeros, ops write only within their values, and an op on a whole group must keep zeros (a sum over
// ranks does). The padding of other values holds whatever was there before.
struct Group {
  std::string name;
  std::vector<ValueId> members;
  uint64_t multiple = kAlignment;
  std::vector<uint64_t> rooms = {};    // bytes reserved for each member; empty: its own size
  std::vector<uint64_t> offsets = {};  // by member; this and `bytes` are filled in by Graph::add_group
  uint64_t bytes = 0;                  // size of the buffer
};

// What an op does with the old contents of the accumulators that it writes.
enum class Accumulate : uint8_t {
  kNever,                 // overwrite
  kAfterFirstMicroBatch,  // overwrite in the first micro-batch of a step, add in the others
  kAlways,                // add
};

// In which runs of a program an op is executed.
enum class RunWhen : uint8_t {
  kAlways,
  kOnce,  // before all other ops, after persistent values were written from outside; its results persist
  kFirstMicroBatch,  // of a step or an evaluation; its results persist and also serve the other micro-batches
  kLastMicroBatch,
};

// Why an op is in the program.
enum class Role : uint8_t {
  kStep,       // the step's own work, and moves of its results
  kRecompute,  // computes an activation again that was not saved
  kGather,     // gathers an activation again of which each rank saved its part
  kVerify,     // compares such an activation, or a prefetched one, with what forward made
};

enum class StreamId : uint8_t {
  kCompute,
  kCommunication,
  kGather,
  kDeviceToHost,
  kHostToDevice,
  kDisk,
  kHost,  // work that the host's processor does for a device
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
  int64_t first_sample = 0;  // the sample of the micro-batch that is in row 0
  // Values that must be complete before this op begins although it does not read them. They keep a side
  // stream from running too far ahead.
  std::vector<ValueId> after = {};
};

// A range over the ids 0, 1, ... below an end.
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
  // Appends the op and infers its outputs' shapes and dtypes. `outputs` may name existing accumulators; for
  // kNone entries and missing ones new values are made, named after the op.
  OpId add_op(Op op);
  // Infers the outputs of an op that gets its place later (graph_edit.h).
  void infer_outputs(Op& op);

  const Value& value(ValueId id) const { return values_.at(id); }
  Value& value(ValueId id) { return values_.at(id); }
  const Op& op(OpId id) const { return ops_.at(id); }
  Op& op(OpId id) { return ops_.at(id); }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Op>& ops() const { return ops_; }
  Ids op_ids() const { return Ids(ops_.size()); }
  Ids value_ids() const { return Ids(values_.size()); }
  // Replaces the whole program order and recomputes the producers. For passes.
  void set_ops(std::vector<Op> ops);
  ValueId find(std::string_view name) const;  // kNone if there is none

  // Throws Error kInternal unless the members are in no group yet and agree in dtype, category, memory space,
  // pooling and persistence.
  GroupId add_group(Group group);
  const Group& group(GroupId id) const { return groups_.at(id); }
  const std::vector<Group>& groups() const { return groups_; }
  // Returns the position of a value among the members of its group.
  std::size_t place_in_group(ValueId value) const;
  // Returns the bytes reserved for a value, padding included.
  uint64_t room_of(ValueId value) const;

 private:
  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<Group> groups_;
};

}  // namespace recollect
