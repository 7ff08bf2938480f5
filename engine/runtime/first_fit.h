// First-fit placement of memory blocks: each block gets the lowest offset that is free during its whole
// lifetime. A segment tree over all moments at which blocks begin or end stores at each node the address
// ranges that are taken, with touching ranges merged. Placing a block takes about the square of the tree's
// height, however many blocks there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace recollect {

class FirstFit {
 public:
  // `moments`: every moment at which a block will begin or end, in any order.
  explicit FirstFit(std::vector<int64_t> moments);

  // Returns the offset of a block of more than 0 bytes that is live from `begin` to `end`, both inclusive,
  // and marks its range as taken.
  uint64_t place(int64_t begin, int64_t end, uint64_t bytes);

 private:
  struct Range {
    uint64_t begin, end;
  };
  using Ranges = std::vector<Range>;  // sorted; they neither overlap nor touch
  struct Cursor {
    Ranges::const_iterator next, end;
  };

  static void add(Ranges& ranges, Range range);
  std::size_t leaf_of(int64_t moment) const;
  uint64_t lowest(std::size_t begin, std::size_t end, uint64_t bytes);
  void take(std::size_t begin, std::size_t end, Range range);

  std::vector<int64_t> moments_;
  std::size_t leaves_ = 1;
  // The first two are indexed by node. Node 1 is the root, the children of node i are 2i and 2i + 1, and
  // moment m is node leaves_ + m.
  std::vector<Ranges> throughout_;  // taken at all moments of the node, by blocks recorded at it
  std::vector<Ranges> sometime_;    // taken at some moment of the node, by blocks recorded at it or below it
  std::vector<Cursor> taken_;       // scratch memory of lowest(), kept between calls
};

}  // namespace recollect
