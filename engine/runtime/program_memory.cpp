#include "engine/runtime/program_memory.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/runtime/disk_ring.h"
#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

template <typename Bytes>
uint64_t most(const std::vector<const Program*>& programs, const MemoryLedger& later, Bytes bytes) {
  uint64_t most = bytes(later);
  for (const Program* program : programs) most = std::max<uint64_t>(most, bytes(program->predicted()));
  return most;
}

template <typename Stored>
void check_within(const Stored& tensor, std::size_t offset, std::size_t bytes) {
  require(offset <= tensor.bytes() && bytes <= tensor.bytes() - offset,
          "a read or a write past the end of a value");
}

}  // namespace

bool is_shared(const Value& value) {
  return persists(value) && value.category != Category::kInput && value.category != Category::kWorkspace;
}

ProgramMemory::ProgramMemory(Device& device, const std::vector<const Program*>& programs,
                             const MemoryLedger& later, DiskStore* states)
    : device_(device),
      values_(shared_values(*programs.at(0))),
      device_arena_(
          device.reserve(MemorySpace::kDevice,
                         most(programs, later, [](const MemoryLedger& l) { return l.arena_bytes(); }))),
      host_arena_(device.reserve(MemorySpace::kHost,
                                 most(programs, later, [](const MemoryLedger& l) { return l.host_bytes; }))),
      disk_bytes_(most(programs, later, [](const MemoryLedger& l) { return l.disk_bytes; })),
      disk_state_bytes_(most(programs, later, [](const MemoryLedger& l) { return l.disk_state_bytes; })),
      states_(states) {
  require(states_ || disk_state_bytes_ == 0, "there is no file for what persists on the disk");
  if (states_) {
    const ValueId ring = programs.at(0)->graph.find(kDiskRing);
    require(ring != kNone, "there is no buffer for the file of what persists on the disk");
    ring_offset_ = programs.at(0)->layout.value_offsets[ring];
  }
  for (const Program* program : programs) check_fits(*program);
}

std::string ProgramMemory::Shared::to_string() const {
  return fmt::format("{} {} of {} at {} of {} memory{}", shape.to_string(), name_of(dtype), name_of(category),
                     offset, name_of(space), group.empty() ? "" : " in group " + group);
}

ProgramMemory::SharedValues ProgramMemory::shared_values(const Program& program) {
  const Graph& graph = program.graph;
  SharedValues values;
  for (ValueId id : graph.value_ids()) {
    const Value& v = graph.value(id);
    if (!is_shared(v)) continue;
    const bool inserted =
        values
            .emplace(v.name, Shared{.shape = v.shape,
                                    .dtype = v.dtype,
                                    .category = v.category,
                                    .space = v.space,
                                    .offset = program.layout.value_offsets[id],
                                    .group = v.group == kNone ? "" : graph.group(v.group).name})
            .second;
    require(inserted, "two persistent values are called " + v.name);
  }
  return values;
}

void ProgramMemory::check_fits(const Program& program) const {
  const SharedValues own = shared_values(program);
  for (const auto& [name, value] : own) {
    const auto here = values_.find(name);
    require(here != values_.end(), "a program has a persistent value that its memory lacks: " + name);
    require(here->second == value,
            fmt::format("a program's persistent value {} is {}; in its memory it is {}", name,
                        value.to_string(), here->second.to_string()));
  }
  for (const auto& [name, value] : values_)
    require(own.contains(name), "a program lacks a persistent value of its memory: " + name);
  const auto check = [](const char* what, uint64_t needed, uint64_t reserved) {
    require(needed <= reserved,
            fmt::format("a program needs {} bytes of {}; {} were reserved", needed, what, reserved));
  };
  const MemoryLedger& needs = program.predicted();
  check("device memory", needs.arena_bytes(), device_arena_.bytes());
  check("host memory", needs.host_bytes, host_arena_.bytes());
  check("disk", needs.disk_bytes, disk_bytes_);
  check("disk for what persists", needs.disk_state_bytes, disk_state_bytes_);
}

bool ProgramMemory::admit(const Program& program) {
  check_fits(program);
  return !std::exchange(admitted_, true);
}

const Arena& ProgramMemory::arena(MemorySpace space) const {
  require(space != MemorySpace::kDisk, "a file is no arena");
  return space == MemorySpace::kDevice ? device_arena_ : host_arena_;
}

const ProgramMemory::Shared& ProgramMemory::find(std::string_view shared_value) const {
  const auto found = values_.find(shared_value);
  require(found != values_.end(), "there is no persistent value " + std::string(shared_value));
  return found->second;
}

Tensor ProgramMemory::tensor(std::string_view shared_value) const {
  const Shared& value = find(shared_value);
  return {arena(value.space).at(value.offset), value.shape, value.dtype};
}

SharedTensor ProgramMemory::shared(std::string_view value) const {
  const Shared& found = find(value);
  return {.shape = found.shape,
          .dtype = found.dtype,
          .space = found.space,
          .offset = found.offset,
          .is_there = true,
          .name = std::string(value)};
}

void ProgramMemory::write(const Tensor& to, const void* from, std::size_t offset, std::size_t bytes) const {
  check_within(to, offset, bytes);
  device_.write(static_cast<std::byte*>(to.data) + offset, from, bytes);
}

void ProgramMemory::read(void* to, const Tensor& from, std::size_t offset, std::size_t bytes) const {
  check_within(from, offset, bytes);
  device_.read(to, static_cast<const std::byte*>(from.data) + offset, bytes);
}

void ProgramMemory::write(const SharedTensor& to, const void* from, std::size_t offset,
                          std::size_t bytes) const {
  check_within(to, offset, bytes);
  news_ = true;
  if (to.space == MemorySpace::kDisk)
    states_->write_piece(to.name, from, bytes, to.offset + offset, ring());
  else
    device_.write(arena(to.space).at(to.offset + offset), from, bytes);
}

std::byte* ProgramMemory::writable(const SharedTensor& to) const {
  if (to.space == MemorySpace::kDisk || !device_.is_addressable(to.space)) return nullptr;
  news_ = true;
  return arena(to.space).at(to.offset);
}

void ProgramMemory::read(void* to, const SharedTensor& from, std::size_t offset, std::size_t bytes) const {
  check_within(from, offset, bytes);
  if (from.space == MemorySpace::kDisk)
    states_->read_piece(from.name, to, bytes, from.offset + offset, ring());
  else
    device_.read(to, arena(from.space).at(from.offset + offset), bytes);
}

}  // namespace recollect
