// The order in which a run sees its samples: a pure function of (seed, epoch, position), computed without a
// table, so that any rank can start anywhere and a dataset of 2^40 sequences costs nothing to shuffle.
#pragma once

#include <cstdint>

namespace recollect {

class SampleOrder {
 public:
  // Over [0, size), size in [1, 2^62]. Without shuffling: the file's order, epoch after epoch.
  SampleOrder(int64_t size, uint64_t seed, bool shuffle);

  int64_t size() const { return size_; }
  // The dataset index of the run's sample number `sample`: epoch sample / size, position sample % size.
  int64_t at(int64_t sample) const { return at(sample / size_, sample % size_); }
  // For every epoch a permutation of [0, size).
  int64_t at(int64_t epoch, int64_t position) const;

 private:
  uint64_t permute(uint64_t value, uint64_t epoch) const;

  int64_t size_;
  uint64_t seed_;
  bool shuffle_;
  int half_bits_;  // the network permutes [0, 2^(2 * half_bits_)), less than four times size
};

}  // namespace recollect
