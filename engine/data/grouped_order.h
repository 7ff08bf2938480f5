// A run's order of samples in which those of like length follow each other, as Transformers' group_by_length has it:
// every window of so many samples of an epoch is sorted by length, the longest first, and else stays in its order.
// Still a pure function of seed, epoch and position; the window in use is remembered.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/order.h"

namespace recollect {

class GroupedOrder {
 public:
  // Windows of so many samples; 0: `order` as it is. `dataset` must outlive this.
  GroupedOrder(const SampleOrder& order, const Dataset& dataset, int64_t window)
      : order_(order), dataset_(dataset), window_(window) {}

  // The dataset index of the run's sample number `sample`. Allocates nothing after the first call.
  int64_t at(int64_t sample);

 private:
  struct Entry {
    int64_t length, position, index;
  };

  void sort_window(int64_t epoch, int64_t begin);

  SampleOrder order_;
  const Dataset& dataset_;
  int64_t window_;
  int64_t epoch_ = -1, begin_ = 0;  // of the window that is sorted
  std::vector<Entry> sorted_;
};

}  // namespace recollect
