// The last step of a loss: one block adds up what rows, or blocks of them, have lost, in a fixed order, and
// looks whether every target names a class. What the device finds wrong, the host says later.
#pragma once

#include <memory>

#include "engine/runtime/kernel.h"

namespace recollect::cuda {

class LossSum {
 public:
  // Losses stand row by row, `columns` to a row, each column with a scale of its own. `classes`: of the
  // targets; 0 where losses have none.
  LossSum(int64_t losses, int64_t columns, int64_t classes)
      : losses_(losses), columns_(columns), classes_(classes) {}

  void prepare();

  // loss (+)= the sum of scale * loss; `targets` has one for every loss, or is null.
  void run(const float* losses, const int32_t* targets, const double* scale, double* loss, bool accumulate,
           void* stream) const;

  // When a run is done: its first target that names no class, by its place among the losses.
  struct BadTarget {
    int64_t number;  // place, counted from 1; 0: there is none
    int32_t target;
  };
  BadTarget bad_target() const;

 private:
  int64_t losses_, columns_, classes_;
  std::shared_ptr<void> bad_;  // a BadTarget in host memory
};

}  // namespace recollect::cuda
