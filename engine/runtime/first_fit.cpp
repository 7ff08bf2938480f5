#include "engine/runtime/first_fit.h"

#include <algorithm>
#include <utility>

#include "engine/core/error.h"

namespace recollect {

namespace {

// Calls f for the fewest nodes that together cover exactly the leaves from `begin` to `end`.
template <typename F>
void for_each_node_within(std::size_t begin, std::size_t end, F f) {
  for (++end; begin < end; begin /= 2, end /= 2) {
    if (begin % 2) f(begin++);
    if (end % 2) f(--end);
  }
}

// Calls f for both leaves and all of their ancestors, each once.
template <typename F>
void for_each_node_above(std::size_t begin, std::size_t end, F f) {
  for (; begin > 0; begin /= 2, end /= 2) {
    f(begin);
    if (end != begin) f(end);
  }
}

}  // namespace

FirstFit::FirstFit(std::vector<int64_t> moments) : moments_(std::move(moments)) {
  std::sort(moments_.begin(), moments_.end());
  moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
  while (leaves_ < moments_.size()) leaves_ *= 2;
  throughout_.resize(2 * leaves_);
  sometime_.resize(2 * leaves_);
}

uint64_t FirstFit::place(int64_t begin, int64_t end, uint64_t bytes) {
  const std::size_t first = leaf_of(begin), last = leaf_of(end);
  const uint64_t offset = lowest(first, last, bytes);
  take(first, last, {offset, offset + bytes});
  return offset;
}

std::size_t FirstFit::leaf_of(int64_t moment) const {
  const auto found = std::lower_bound(moments_.begin(), moments_.end(), moment);
  require(found != moments_.end() && *found == moment, "a block begins or ends at a moment nobody spoke of");
  return leaves_ + static_cast<std::size_t>(found - moments_.begin());
}

void FirstFit::add(Ranges& ranges, Range range) {
  const auto first = std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                                      [](const Range& r, uint64_t begin) { return r.end < begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  if (first == last) {
    ranges.insert(first, range);
  } else {
    *first = range;
    ranges.erase(first + 1, last);
  }
}

// A block that is live at the same time as ours is recorded either at an ancestor of one of our two end
// leaves, where it covers the whole node (throughout_), or at or below a node that we cover (sometime_). The
// offset rises past every range that it meets, until a pass over all lists meets none. The ranges of a list
// are sorted, so each is visited once.
uint64_t FirstFit::lowest(std::size_t begin, std::size_t end, uint64_t bytes) {
  taken_.clear();
  const auto look_at = [&](const Ranges& ranges) {
    if (!ranges.empty()) taken_.push_back({ranges.begin(), ranges.end()});
  };
  for_each_node_above(begin, end, [&](std::size_t node) { look_at(throughout_[node]); });
  for_each_node_within(begin, end, [&](std::size_t node) { look_at(sometime_[node]); });
  uint64_t offset = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (Cursor& c : taken_) {
      for (; c.next != c.end && c.next->begin < offset + bytes; ++c.next) {
        if (c.next->end <= offset) continue;
        offset = c.next->end;
        moved = true;
      }
    }
  }
  return offset;
}

// Records the range at the nodes that the block covers, and as taken at some moment at all of their
// ancestors.
void FirstFit::take(std::size_t begin, std::size_t end, Range range) {
  for_each_node_above(begin, end, [&](std::size_t node) { add(sometime_[node], range); });
  for_each_node_within(begin, end, [&](std::size_t node) {
    add(throughout_[node], range);
    add(sometime_[node], range);
  });
}

}  // namespace recollect
