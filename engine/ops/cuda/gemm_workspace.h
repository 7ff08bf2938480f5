// What matrix products take of a workspace, of shapes alone.
#pragma once

#include <cstddef>

#include "engine/core/arena.h"
#include "engine/ops/cuda/gemm.h"

namespace recollect::cuda {

inline constexpr std::size_t kGemmAlignment = 256;  // of what the library is given; a workspace has less

constexpr std::size_t gemm_aligned(std::size_t bytes) {
  return (bytes + kGemmAlignment - 1) / kGemmAlignment * kGemmAlignment;
}

// What cuBLASLt is let have, whatever the product. A function, in a file of its own, so that tests can take its place.
std::size_t library_workspace_bytes();

// A bias that is rounded to the dtype of out stands before the library's own.
inline std::size_t bias_workspace_bytes(const GemmShape& shape) {
  return shape.biased ? gemm_aligned(static_cast<std::size_t>(shape.n) * size_of(shape.out)) : 0;
}

// Of Gemm and GemmWithGelu.
inline std::size_t workspace_bytes_of(const GemmShape& shape) {
  return kGemmAlignment + bias_workspace_bytes(shape) + library_workspace_bytes();
}

// A product of 16 bits with a bias whose rows are not whole vectors, as a classifier's: it waits in float, after what the library
// takes, until its bias is added.
inline bool adds_bias_after(const GemmShape& shape) {
  constexpr int64_t kVectorBytes = 16;
  return shape.biased && size_of(shape.out) == 2 && shape.n % (kVectorBytes / 2) != 0;
}
inline GemmShape shape_before_bias(GemmShape shape) {
  shape.out = DType::kF32;
  shape.biased = false;
  return shape;
}
inline std::size_t product_before_bias_at(const GemmShape& shape) {
  return aligned(workspace_bytes_of(shape_before_bias(shape)));
}
inline std::size_t workspace_bytes_with_bias_after(const GemmShape& shape) {
  return product_before_bias_at(shape) + sizeof(float) * static_cast<std::size_t>(shape.m * shape.n);
}

// Of GemmWithSums.
inline std::size_t workspace_bytes_with_sums() { return kGemmAlignment + library_workspace_bytes(); }

}  // namespace recollect::cuda
