// ProgramMemory is the memory of one model, shared by all of its programs. Parameters, gradients and the
// other persistent values have the same address in every program, so each program continues with what the
// last one left. After them comes one transient region for everything else, as large as the most demanding
// program needs. It belongs to the program that runs: what another program had there, inputs included, is
// lost. All memory is reserved once.
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

// Returns true if the value lies at the same place in every program of a model: all persistent values do,
// except inputs and the disk ring, which only some programs have.
bool is_shared(const Value& value);

// Names of shared values.
using NameSet = std::set<std::string, std::less<>>;

// A shared value in an arena, or in the file of persistent values on the disk, where it has no address.
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
  // Reserves memory for `programs`, all of one model, for those whose ledger is `later`, and for any other
  // that needs no more. `device` and `states` must outlive the memory. `states` is open if some persistent
  // values are on the disk. Throws Error kInternal if the programs' shared values differ.
  ProgramMemory(Device& device, const std::vector<const Program*>& programs, const MemoryLedger& later = {},
                DiskStore* states = nullptr);
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  // Throws Error kInternal, naming the first difference, if the program's shared values differ from these, or
  // if it needs more memory than was reserved.
  void check_fits(const Program& program) const;
  // Checks the same for a program that will run here. Returns true for the first one.
  bool admit(const Program& program);

  Tensor tensor(std::string_view shared_value) const;  // throws Error kInternal if no arena holds that name
  SharedTensor shared(std::string_view value) const;   // throws Error kInternal if there is no such name
  // Copies between host memory and a tensor in the arenas: all of it, or `bytes` from `offset` on.
  void write(const Tensor& to, const void* from) const { write(to, from, 0, to.bytes()); }
  void write(const Tensor& to, const void* from, std::size_t offset, std::size_t bytes) const;
  void read(void* to, const Tensor& from) const { read(to, from, 0, from.bytes()); }
  void read(void* to, const Tensor& from, std::size_t offset, std::size_t bytes) const;
  // The same for a shared value, which may be on the disk. Call them only between runs, when no disk transfer
  // is in progress. They throw Error kStorage. Values that are computed once from such a value must be
  // computed again after a write.
  void write(const SharedTensor& to, const void* from, std::size_t offset, std::size_t bytes) const;
  void read(void* to, const SharedTensor& from, std::size_t offset, std::size_t bytes) const;
  // Returns the address at which the host can write the value, or null if it cannot. The call counts as a
  // write.
  std::byte* writable(const SharedTensor& to) const;

  // Returns true if a shared value was written since the last call, or if this is the first call.
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
    std::string group;  // empty if it belongs to none
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
  uint64_t ring_offset_ = 0;  // of the disk ring; only with states_
  bool admitted_ = false;
  mutable bool news_ = true;
};

}  // namespace recollect
