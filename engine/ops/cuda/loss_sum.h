// The last step of a loss: one block adds up the losses of rows, or of blocks of elements, in a fixed order,
// and checks that every target names a class. The host reports a wrong target after the run.
#pragma once

#include <memory>

#include "engine/runtime/kernel.h"

namespace recollect::cuda {

class LossSum {
 public:
  // The losses are a matrix in row order with `columns` columns, each with its own scale. `classes` is the
  // number of classes; 0 if the losses have no class targets.
  LossSum(int64_t losses, int64_t columns, int64_t classes)
      : losses_(losses), columns_(columns), classes_(classes) {}

  void prepare();

  // loss (+)= sum of scale[column] * losses. `targets` has one entry per loss, or is null.
  void run(const float* losses, const int32_t* targets, const double* scale, double* loss, bool accumulate,
           void* stream) const;

  // After a run: the first target that does not name a class.
  struct BadTarget {
    int64_t number;  // index among the losses plus 1; 0: none
    int32_t target;
  };
  BadTarget bad_target() const;

 private:
  int64_t losses_, columns_, classes_;
  std::shared_ptr<void> bad_;  // a BadTarget in host memory
};

}  // namespace recollect::cuda
