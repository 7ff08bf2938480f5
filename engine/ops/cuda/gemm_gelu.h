// A product that ends with GELU, in its tanh form, or with GELU's derivative. It is kept only where it is faster than a
// product and a pass over what that makes; that is timed once, and the choice stays as those of products do (gemm_choices.h):
// GELU is made of the sums before they are rounded here, and of the rounded ones there, so that the two have bits of their own.
#pragma once

#include <functional>

#include "engine/ops/cuda/gemm.h"

namespace recollect::cuda {

// Of a shape with a bias: pre = op(a) op(b) + bias, and out = gelu of that. Without one: out = op(a) op(b) times the derivative
// at pre, which is read. Both have the dtype of out.
class GemmWithGelu {
 public:
  GemmWithGelu(const GemmShape& shape, Libraries* libraries);
  ~GemmWithGelu();
  GemmWithGelu(GemmWithGelu&&) noexcept;
  GemmWithGelu& operator=(GemmWithGelu&&) noexcept;

  std::size_t workspace_bytes() const;  // follows from the shape alone

  // Whether this is to be run; `apart` enqueues what does the same in two steps. The operands are overwritten, with `pre` and
  // the workspace.
  bool prepare(const void* a, const void* b, void* out, void* pre, void* workspace, void* stream,
               const std::function<void()>& apart);

  // `bias` is null unless the shape is biased.
  void run(const void* a, const void* b, void* out, const float* bias, void* pre, void* workspace,
           void* stream);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recollect::cuda
