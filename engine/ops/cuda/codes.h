// Makes 8-bit codes of a value whose largest magnitude was found in parts while the value was computed. So
// the codes need only one more read of the value.
#pragma once

#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/ops/float8.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

// The maximum of magnitude_bits.
struct LargerBits {
  static __device__ uint32_t combine(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

template <int N>
__device__ uint32_t larger_bits(uint32_t most, const Floats<N>& numbers) {
#pragma unroll
  for (int i = 0; i < N; ++i) most = LargerBits::combine(most, magnitude_bits(numbers[i]));
  return most;
}

// Writes the codes of a value of `shape`. Its largest magnitude is the maximum of `parts` numbers. The codes
// are the op's last outputs.
template <typename A>
class CodeWriter : public Kernel {
 public:
  CodeWriter(const OpView& view, const Shape& shape, int64_t parts)
      : rows_(shape.elements() / row_length(shape)),
        columns_(row_length(shape)),
        parts_(parts),
        e4m3_(view.attributes().text("format") == "e4m3"),
        plain_(makes_rows(view.attributes().text("copies"))),
        transposed_(makes_columns(view.attributes().text("copies"))),
        outputs_(code_outputs(view.attributes().text("copies"))) {}

  std::size_t workspace_bytes() const override { return code_bytes(parts_); }

 protected:
  // Where the parts write their magnitude_bits.
  static uint32_t* parts(const KernelArgs& args) {
    return reinterpret_cast<uint32_t*>(args.workspace + kFactorBytes);
  }
  void write(const KernelArgs& args, const A* x) const;  // float8.cu

  int64_t rows_, columns_, parts_;

 private:
  bool e4m3_, plain_, transposed_;
  std::size_t outputs_;
};

}  // namespace recollect::cuda
