// What makes 8-bit codes of a value whose largest number has been found, in parts, while it was made: they take one reading
// of it.
#pragma once

#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/ops/float8.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

// Of magnitude_bits.
struct LargerBits {
  static __device__ uint32_t combine(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

template <int N>
__device__ uint32_t larger_bits(uint32_t most, const Floats<N>& numbers) {
#pragma unroll
  for (int i = 0; i < N; ++i) most = LargerBits::combine(most, magnitude_bits(numbers[i]));
  return most;
}

// Of a value of that shape, whose largest number is that of so many parts. The op's last outputs are the codes.
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
  // Where each part's magnitude_bits go.
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
