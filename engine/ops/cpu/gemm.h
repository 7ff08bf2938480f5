// One matrix product bound to its shape: C (+)= op(A) op(B) + bias, matrices dense and row-major. The
// algorithm is chosen from the shape and the processor alone, and every number of C is added up in the same
// order by whichever thread: equal shapes give equal bits, and so does a product of some rows of a larger one
// that says of how many rows that is. Memory that threads share comes from the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/core/dtype.h"

namespace recollect::cpu {

// What multiplies bf16: the processor's fastest, its dot product where it has one, or f32's units.
enum class Bf16Units { kFastest, kDots, kWidened };

struct GemmSpec {
  int64_t m = 0, n = 0, k = 0;  // C is [m, n]
  bool transpose_a = false;     // A is stored [k, m]
  bool transpose_b = false;     // B is stored [n, k]
  DType in = DType::kF32;       // of A and B
  DType out = DType::kF32;      // of C
  bool bias = false;            // an f32 [n] is added to every row
  bool accumulates = false;     // run() may be asked to add into C
  Bf16Units units = Bf16Units::kFastest;
  int64_t whole_m =
      0;  // C is some rows of one of so many, and has the bits that it has there; 0: it is whole
};

class Gemm {
 public:
  explicit Gemm(const GemmSpec& spec);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  std::size_t workspace_bytes() const;  // a multiple of 64
  // `workspace` is 64-byte aligned. `bias` is read only when the spec has one.
  void run(const void* a, const void* b, void* c, const float* bias, bool accumulate,
           std::byte* workspace) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recollect::cpu
