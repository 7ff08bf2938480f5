// A GemmShape as cuBLASLt's descriptors, made once. Private to this folder.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "engine/ops/cuda/cublas.h"
#include "engine/ops/cuda/gemm_workspace.h"

namespace recollect::cuda {

// Of one product of a shape; `bias` has the dtype of out, and is null unless the shape is biased.
struct GemmOperands {
  const void *a = nullptr, *b = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;
  void* workspace = nullptr;  // library_workspace_bytes() long
  void* stream = nullptr;
  GemmScales scales = {};  // null: 1
};

// Places in the workspace of a product: a bias, which is added as the dtype of out and rounded to that first, and the library's
// own.
class GemmWorkspace {
 public:
  GemmWorkspace(const GemmShape& shape, void* workspace);

  void* bias() const { return shape_.biased ? begin_ : nullptr; }
  void* of_library() const { return begin_ + bias_workspace_bytes(shape_); }
  // The bias as the product reads it; null where there is none.
  const void* rounded(const void* bias, Cublas& cublas, void* stream) const;

 private:
  const GemmShape& shape_;
  std::byte* begin_;
};

// Whether the library may have products of the shape that end with GELU. Rows of `pre` begin on multiples of 8 numbers, and of 16
// bytes.
constexpr bool ends_with_gelu(const GemmShape& shape) {
  return shape.out != DType::kF32 && shape.in == shape.out && shape.n % 8 == 0;
}

class CublasProblem {
 public:
  CublasProblem(const GemmShape& shape, Cublas& cublas);

  // The library's proposals, best first by its own estimate. None that adds partial sums in an order that may
  // change, or rounds them to less than float.
  std::vector<GemmAlgorithm> candidates() const;

  // From now on the product also writes the sums of op(a)'s rows, f32 [m]. Of a shape without a bias whose output is f32.
  void write_sums(float* sums);

  // From now on the product ends with GELU (gemm_gelu.h): with the values of the sums, which it writes to `pre`, where the shape
  // has a bias, else with the derivative at `pre`. Of a shape that ends_with_gelu.
  void end_with_gelu(void* pre);

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
