// Places blocks one after the other, each at the lowest offset that nobody else holds during its life. A tree
// over the moments at which blocks begin and end knows, at every node, which ranges are taken, those that
// touch made one: so a block costs about the square of the tree's height, however many there are already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace recollect {

class FirstFit {
 public:
  // All moments at which a block will begin or end, in any order.
  explicit FirstFit(std::vector<int64_t> moments);

  // The offset of a block of more than 0 bytes that lives from `begin` to `end`, both included. It is taken
  // from then on.
  uint64_t place(int64_t begin, int64_t end, uint64_t bytes);

 private:
  struct Range {
    uint64_t begin, end;
  };
  using Ranges = std::vector<Range>;  // in order, apart from each other
  struct Cursor {
    Ranges::const_iterator next, end;
  };

  static void add(Ranges& ranges, Range range);
  std::size_t leaf_of(int64_t moment) const;
  uint64_t lowest(std::size_t begin, std::size_t end, uint64_t bytes);
  void take(std::size_t begin, std::size_t end, Range range);

  std::vector<int64_t> moments_;
  std::size_t leaves_ = 1;
  // By node. Node 1 is the root, the children of i are 2i and 2i + 1, moment m is node leaves_ + m.
  std::vector<Ranges> throughout_;  // taken at all moments of the node, as far as the node knows
  std::vector<Ranges> sometime_;    // taken at some moment, as far as the node and those below it know
  std::vector<Cursor> taken_;       // kept for its memory
};

}  // namespace recollect
