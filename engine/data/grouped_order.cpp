#include "engine/data/grouped_order.h"

#include <algorithm>

namespace recollect {

int64_t GroupedOrder::at(int64_t sample) {
  if (window_ == 0) return order_.at(sample);
  const int64_t epoch = sample / order_.size(), position = sample % order_.size(),
                begin = position / window_ * window_;
  if (epoch != epoch_ || begin != begin_) sort_window(epoch, begin);
  return sorted_[static_cast<std::size_t>(position - begin)].index;
}

void GroupedOrder::sort_window(int64_t epoch, int64_t begin) {
  const int64_t end = std::min(order_.size(), begin + window_);
  sorted_.reserve(static_cast<std::size_t>(std::min(order_.size(), window_)));
  sorted_.clear();
  for (int64_t position = begin; position < end; ++position) {
    const int64_t index = order_.at(epoch, position);
    sorted_.push_back({dataset_.length(index), position, index});
  }
  std::sort(sorted_.begin(), sorted_.end(), [](const Entry& a, const Entry& b) {
    return a.length != b.length ? a.length > b.length : a.position < b.position;
  });
  epoch_ = epoch;
  begin_ = begin;
}

}  // namespace recollect
