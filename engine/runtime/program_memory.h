// The memory of a model, apart from the programs that run in it. Parameters, gradients and whatever else
// persists lie at the same place for all its programs: each goes on with what the last one left there. Behind
// them is one region for everything else. It is as large as the neediest program wants it, and belongs to the
// program that runs; what another one had there, inputs included, is gone then. Reserved once.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/arena.h"
#include "engine/io/disk_store.h"
#include "engine/runtime/device.h"
#include "engine/runtime/program.h"

namespace recollect {

// What lies at the same place in every program of a model: all that persists but its inputs and the disk's buffer, which
// only some programs have.
bool is_shared(const Value& value);

// Of shared values.
using NameSet = std::set<std::string, std::less<>>;

// A shared value wherever it is: in an arena, or in the file of what persists on the disk, where it has no address.
struct SharedTensor {
  Shape shape = {};
  DType dtype = DType::kF32;
  MemorySpace space = MemorySpace::kDevice;
  uint64_t offset = 0;  // in the arena or the file
  bool is_there = false;
  std::string name = {};

  int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  bool defined() const { return is_there; }
};

class ProgramMemory {
 public:
  // For these programs of one model, for those whose ledger is `later`, and all others that need no more. `device`
  // must outlive the memory, and so must `states`, which is open where something persists on the disk. Error kInternal
  // where what they share differs.
  ProgramMemory(Device& device, const std::vector<const Program*>& programs, const MemoryLedger& later = {},
                DiskStore* states = nullptr);
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  // Error kInternal, naming the first difference, where the program's shared values are not these; and where
  // it needs more than was reserved.
  void check_fits(const Program& program) const;
  // The same for a program that will run here. Whether it is the first.
  bool admit(const Program& program);

  Tensor tensor(
      std::string_view shared_value) const;  // Error kInternal where there is none of that name in an arena
  SharedTensor shared(std::string_view value) const;  // Error kInternal where there is none of that name
  // Between host memory and an address in the arenas: all of the tensor, or `bytes` of it from `offset` on.
  void write(const Tensor& to, const void* from) const { write(to, from, 0, to.bytes()); }
  void write(const Tensor& to, const void* from, std::size_t offset, std::size_t bytes) const;
  void read(void* to, const Tensor& from) const { read(to, from, 0, from.bytes()); }
  void read(void* to, const Tensor& from, std::size_t offset, std::size_t bytes) const;
  // Likewise, between two runs: of what is on the disk nothing then travels. Error kStorage. What follows from such
  // values, and is made once, is to be made anew after a write.
  void write(const SharedTensor& to, const void* from, std::size_t offset, std::size_t bytes) const;
  void read(void* to, const SharedTensor& from, std::size_t offset, std::size_t bytes) const;
  // Where the host writes it by address, which counts as a write; null where it cannot.
  std::byte* writable(const SharedTensor& to) const;

  // Whether such a value was written since the last call, or this is the first one.
  bool take_news() { return std::exchange(news_, false); }

  const Arena& arena(MemorySpace space) const;  // kDevice or kHost
  uint64_t disk_bytes() const { return disk_bytes_; }
  uint64_t disk_state_bytes() const { return disk_state_bytes_; }
  Device& device() const { return device_; }

 private:
  struct Shared {
    Shape shape;
    DType dtype = DType::kF32;
    Category category = Category::kParameter;
    MemorySpace space = MemorySpace::kDevice;
    uint64_t offset = 0;
    std::string group;  // empty where it has none
    bool operator==(const Shared&) const = default;
    std::string to_string() const;
  };
  using SharedValues = std::map<std::string, Shared, std::less<>>;

  static SharedValues shared_values(const Program& program);
  const Shared& find(std::string_view shared_value) const;
  std::byte* ring() const { return host_arena_.at(ring_offset_); }

  Device& device_;
  SharedValues values_;
  Arena device_arena_, host_arena_;
  uint64_t disk_bytes_, disk_state_bytes_;
  DiskStore* states_;
  uint64_t ring_offset_ = 0;  // of the disk's buffer, where states are there
  bool admitted_ = false;
  mutable bool news_ = true;
};

}  // namespace recollect
