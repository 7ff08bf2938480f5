#include "tests/gpu/emulation/traffic.h"

#include "engine/core/error.h"
#include "tests/gpu/emulation/grid.h"

namespace recollect::emulation {

Traffic::Traffic() {
  require(!traffic, "traffic is counted once");
  traffic = this;
}

Traffic::~Traffic() { traffic = nullptr; }

void Traffic::watch(const void* data, std::size_t bytes, std::size_t small) {
  const std::size_t units = (bytes + kUnit - 1) / kUnit;
  values_.push_back({.begin = static_cast<const std::byte*>(data),
                     .bytes = bytes,
                     .small = bytes <= small,
                     .reader = std::vector<uint64_t>(units),
                     .writer = std::vector<uint64_t>(units)});
}

void Traffic::touch(const void* data, std::size_t bytes, bool writes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const uint64_t launch = static_cast<uint64_t>(launches_) << 32;
  for (Watched& value : values_) {
    if (begin < value.begin || begin >= value.begin + value.bytes) continue;
    const uint64_t who = launch + (value.small ? 1 : 1 + blockIdx.x + gridDim.x * blockIdx.y);
    const auto first = static_cast<std::size_t>(begin - value.begin);
    for (std::size_t unit = first / kUnit; unit <= (first + bytes - 1) / kUnit; ++unit) {
      uint64_t& last = (writes ? value.writer : value.reader).at(unit);
      if (last == who) continue;
      last = who;
      ++(writes ? value.written : value.read);
    }
    return;
  }
  elsewhere_ += static_cast<int64_t>(bytes);
}

}  // namespace recollect::emulation
