// One matrix product bound to its shape: C (+)= op(A) op(B) + bias, matrices dense and row-major. The
// algorithm is chosen from the shape and the processor alone, and every number of C is added up in the same
// order by whichever thread: equal shapes give equal bits. Memory that threads share comes from the caller.
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
