#include "engine/ops/cuda/loss_sum.h"

#include "engine/core/ignored_label.h"
#include "engine/runtime/cuda/enqueue.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 1024;

struct Losses {
  const float* of_rows;
  int64_t count, columns;
  const int32_t* targets;
  int64_t classes;
};

__global__ void __launch_bounds__(kThreads)
    sum_losses(Losses losses, const double* scale, double* loss, bool accumulate, LossSum::BadTarget* bad) {
  double total = 0.0;
  for (int64_t column = 0; column < losses.columns; ++column) {
    double sum = 0.0;
    for (int64_t at = column + threadIdx.x * losses.columns; at < losses.count;
         at += kThreads * losses.columns)
      sum += losses.of_rows[at];
    total += reduce_block<Sum>(sum, 0.0) * scale[column];
  }
  int64_t bad_place = losses.count;
  for (int64_t at = threadIdx.x; losses.targets && at < losses.count && bad_place == losses.count;
       at += kThreads) {
    const int32_t target = losses.targets[at];
    if (target != kIgnoredLabel && (target < 0 || target >= losses.classes)) bad_place = at;
  }
  bad_place = reduce_block<Min>(bad_place, losses.count);
  if (threadIdx.x > 0) return;
  *loss = accumulate ? *loss + total : total;
  if (bad_place < losses.count) *bad = {bad_place + 1, losses.targets[bad_place]};
}

}  // namespace

void LossSum::prepare() { bad_ = make_host_cell(sizeof(BadTarget)); }

void LossSum::run(const float* losses, const int32_t* targets, const double* scale, double* loss,
                  bool accumulate, void* stream) const {
  require(bad_ != nullptr, "a loss is prepared before it runs");
  launch(sum_losses, dim3(1), dim3(kThreads), 0, stream, Losses{losses, losses_, columns_, targets, classes_},
         scale, loss, accumulate, static_cast<BadTarget*>(bad_.get()));
}

LossSum::BadTarget LossSum::bad_target() const {
  return bad_ ? *static_cast<const BadTarget*>(bad_.get()) : BadTarget{};
}

}  // namespace recollect::cuda
