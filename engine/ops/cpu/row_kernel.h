// The base of elementwise kernels: rows of a given width, divided among threads.
#pragma once

#include <omp.h>

#include <algorithm>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

class RowKernel : public Kernel {
 public:
  explicit RowKernel(const OpView& view)
      : threads_(omp_get_max_threads()),
        rows_(view.in(0).shape[0]),
        width_(view.in(0).shape.elements() / std::max<int64_t>(rows_, 1)) {}

 protected:
  int threads_;
  int64_t rows_, width_;
};

}  // namespace recollect::cpu
