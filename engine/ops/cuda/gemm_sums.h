// A product that also makes the sums of op(a)'s rows: of a linear layer's gradients, those of its weight and of its bias. It
// is kept only where it is faster than a product and a pass over a for the sums; that is timed once, and the choice stays as
// those of products do (gemm_choices.h).
#pragma once

#include <functional>

#include "engine/ops/cuda/gemm.h"

namespace recollect::cuda {

class GemmWithSums {
 public:
  // As Gemm, of a shape whose output is f32 and that has no bias.
  GemmWithSums(const GemmShape& shape, Libraries* libraries);
  ~GemmWithSums();
  GemmWithSums(GemmWithSums&&) noexcept;
  GemmWithSums& operator=(GemmWithSums&&) noexcept;

  std::size_t workspace_bytes() const;  // follows from the shape alone

  // Whether this is to be run; `apart` enqueues what does the same in two steps. The operands are overwritten, with `sums`
  // and the workspace.
  bool prepare(const void* a, const void* b, void* out, float* sums, void* workspace, void* stream,
               const std::function<void()>& apart);

  // Adds into out where `accumulate` says so, but never into the sums, [m].
  void run(const void* a, const void* b, void* out, float* sums, bool accumulate, void* workspace,
           void* stream);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recollect::cuda
