// A GemmShape as cuBLASLt's descriptors, made once. Private to this folder.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "engine/ops/cuda/cublas.h"

namespace recollect::cuda {

// Of one product of a shape; `bias` has the dtype of out, and is null unless the shape is biased.
struct GemmOperands {
  const void *a = nullptr, *b = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;
  void* workspace = nullptr;  // kCublasWorkspace long
  void* stream = nullptr;
  GemmScales scales = {};  // null: 1
};

inline constexpr std::size_t kCublasWorkspace = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper

class CublasProblem {
 public:
  CublasProblem(const GemmShape& shape, Cublas& cublas);

  // The library's proposals, best first by its own estimate. None that adds partial sums in an order that may
  // change, or rounds them to less than float.
  std::vector<GemmAlgorithm> candidates() const;

  // From now on the product also writes the sums of op(a)'s rows, f32 [m]. Of a shape without a bias whose output is f32.
  void write_sums(float* sums);

  // Enqueues the product. Anything but success: this algorithm does not compute this product.
  cublasStatus_t run(const GemmAlgorithm& algorithm, const GemmOperands& operands, bool accumulate) const;

 private:
  template <typename T>
  using Owned = std::unique_ptr<T, cublasStatus_t (*)(T*)>;

  void set_operation(cublasLtMatmulDescAttributes_t attribute, const void* value, std::size_t bytes) const;
  Owned<cublasLtMatrixLayoutOpaque_t> layout(const struct ColumnMajor& matrix, DType dtype) const;

  GemmShape shape_;
  Cublas& cublas_;
  Owned<cublasLtMatmulDescOpaque_t> operation_;
  Owned<cublasLtMatrixLayoutOpaque_t> first_, second_, out_;
};

}  // namespace recollect::cuda
