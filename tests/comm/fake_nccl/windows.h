// Which calls NCCL makes by its symmetric kernels, as 2.28 to 2.30 do where all GPUs are linked: all-gathers of any type,
// sums and reduce-scatters of floating-point numbers, where all that a rank hands over lies in a window. Such a kernel finds
// what it reads of another rank, or writes there, by the offset in its own window.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/nccl/api.h"
#include "tests/comm/fake_nccl/control.h"

namespace fake_nccl {

using recollect::nccl::DataType;
using recollect::nccl::RedOp;

struct Window {
  const std::byte *begin = nullptr, *end = nullptr;

  bool has(const void* data, std::size_t bytes) const {
    const auto* first = static_cast<const std::byte*>(data);
    return begin && first >= begin && first + bytes <= end;
  }
  uint64_t offset(const void* data) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(data) - begin);
  }
};

// One rank's side of a call.
struct Call {
  std::atomic<int> FakeNcclControl::*
      symmetric;  // counts those of its kind; null where NCCL has no such kernel
  const void* in;
  std::size_t in_bytes;
  const void* out;
  std::size_t out_bytes;
  DataType type;
  RedOp op = RedOp::kSum;
};

inline bool has_symmetric_kernel(const Call& call) {
  if (call.symmetric == &FakeNcclControl::symmetric_gathers) return true;
  const bool is_float =
      call.type == DataType::kFloat32 || call.type == DataType::kFloat16 || call.type == DataType::kBfloat16;
  return call.op == RedOp::kSum && is_float;
}

// What all ranks must have alike; 0 where the kernel is an ordinary one, which asks nothing of addresses.
inline uint64_t symmetric_place(const Window& window, const Call& call) {
  if (!call.symmetric || !has_symmetric_kernel(call) || !window.has(call.in, call.in_bytes) ||
      !window.has(call.out, call.out_bytes))
    return 0;
  const bool reads = call.symmetric != &FakeNcclControl::symmetric_gathers,
             writes = call.symmetric != &FakeNcclControl::symmetric_scatters;
  constexpr uint64_t kApart = uint64_t{1} << 32;
  return 1 + (reads ? window.offset(call.in) : 0) + kApart * (writes ? window.offset(call.out) : 0);
}

}  // namespace fake_nccl
