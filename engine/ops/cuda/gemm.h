// One matrix product bound to its shape: out[m,n] = op(a) op(b) (+ bias) (+ out), matrices dense and
// row-major. The algorithm is chosen once per shape, in prepare(), and kept: equal shapes give equal bits, in
// this run and in later ones (gemm_choices.h). Scratch memory comes from the caller. This header knows
// nothing of NVIDIA's, so that another implementation can take cuBLASLt's place where there is no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/core/dtype.h"

namespace recollect::cuda {

class Libraries;

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored [k, m]
  bool transpose_b = false;  // b is stored [n, k]
  DType in = DType::kF32;    // of a and b: f32, bf16, f16; e4m3 or e5m2 of a; products are summed in float
  DType out = DType::kF32;   // of out: as in, or f32; of 8-bit codes: f32, bf16, f16
  bool accumulates = false;  // run() may be asked to add into out
  bool biased = false;       // run() is given an f32 [n] that is added to every row
  DType second =
      DType::kF32;  // of b, where a is of 8-bit codes; such products are of a and a transposed b alone
  bool beside_collectives = false;  // leaves them multiprocessors (engine/nvidia/multiprocessors.h)

  DType type_of_b() const { return is_float8(in) ? second : in; }
};

// Of 8-bit codes: where the device reads what a code of a, and of b, is to be multiplied by.
struct GemmScales {
  const float *a = nullptr, *b = nullptr;
};

class Gemm {
 public:
  // `libraries` is null where programs are only planned; otherwise it must outlive this.
  Gemm(const GemmShape& shape, Libraries* libraries);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  std::size_t workspace_bytes() const;  // follows from the shape alone

  // Chooses the algorithm. The operands are overwritten, the workspace too.
  void prepare(const void* a, const void* b, void* out, void* workspace, void* stream);

  // Addresses may differ from run to run, but by whole rows. `bias` is null unless the shape is biased.
  void run(const void* a, const void* b, void* out, const void* bias, bool accumulate, void* workspace,
           void* stream, const GemmScales& scales = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recollect::cuda
