// A GemmShape as cuBLASLt descriptors, made once. Private to this folder.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "engine/ops/cuda/cublas.h"
#include "engine/ops/cuda/gemm_workspace.h"

namespace recollect::cuda {

// The operands of one product. `bias` has the dtype of out, and is null unless the shape is biased.
struct GemmOperands {
  const void *a = nullptr, *b = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;
  void* workspace = nullptr;  // library_workspace_bytes() bytes
  void* stream = nullptr;
  GemmScales scales = {};  // null: 1
};

// The parts of a product's workspace: the bias, rounded to the dtype of out, in which cuBLASLt adds it, and
// the library's own workspace.
class GemmWorkspace {
 public:
  GemmWorkspace(const GemmShape& shape, void* workspace);

  void* bias() const { return shape_.biased ? begin_ : nullptr; }
  void* of_library() const { return begin_ + bias_workspace_bytes(shape_); }
  // Returns the bias as the product reads it; null if there is none.
  const void* rounded(const void* bias, Cublas& cublas, void* stream) const;

 private:
  const GemmShape& shape_;
  std::byte* begin_;
};

// Returns true if the library may have products of this shape with a GELU epilogue. Rows of `pre` must begin
// at multiples of 8 elements and of 16 bytes.
constexpr bool ends_with_gelu(const GemmShape& shape) {
  return shape.out != DType::kF32 && shape.in == shape.out && shape.n % 8 == 0;
}

class CublasProblem {
 public:
  CublasProblem(const GemmShape& shape, Cublas& cublas);

  // Returns the library's proposals, best first by its own estimate. Algorithms that add partial sums in an
  // order that may change, or round them below float, are excluded.
  std::vector<GemmAlgorithm> candidates() const;

  // From now on the product also writes the sums of op(a)'s rows, f32 [m]. For a shape without bias and with
  // f32 output.
  void write_sums(float* sums);

  // From now on the product ends with GELU (gemm_gelu.h). If the shape has a bias, it applies GELU to the
  // sums, which it also writes to `pre`; otherwise it multiplies by GELU's derivative at `pre`. Only if
  // ends_with_gelu().
  void end_with_gelu(void* pre);

  // Enqueues the product. Any status except success means that this algorithm does not compute this product.
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
