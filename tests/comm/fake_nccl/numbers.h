// NCCL's types and sums as ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/nccl/api.h"
#include "comm/reduction.h"

namespace fake_nccl {

inline recollect::DType dtype_of(recollect::nccl::DataType type) {
  using recollect::DType;
  using recollect::nccl::DataType;
  switch (type) {
    case DataType::kInt64:
      return DType::kI64;
    case DataType::kFloat16:
      return DType::kF16;
    case DataType::kFloat32:
      return DType::kF32;
    case DataType::kFloat64:
      return DType::kF64;
    case DataType::kBfloat16:
      return DType::kBF16;
    default:
      return DType::kU8;
  }
}

inline std::size_t bytes_of(std::size_t count, recollect::nccl::DataType type) {
  return count * recollect::size_of(dtype_of(type));
}

inline void reduce(recollect::nccl::DataType type, recollect::nccl::RedOp op,
                   const std::vector<const std::byte*>& parts, std::size_t offset, void* out,
                   std::size_t count) {
  std::vector<const void*> from;
  for (const std::byte* part : parts) from.push_back(part + offset);
  recollect::reduce_parts(
      dtype_of(type),
      op == recollect::nccl::RedOp::kSum ? recollect::ReduceOp::kSum : recollect::ReduceOp::kMax, from.data(),
      static_cast<int>(from.size()), out, static_cast<int64_t>(count));
}

}  // namespace fake_nccl
