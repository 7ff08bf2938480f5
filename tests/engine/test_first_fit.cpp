// The lowest free offset, against a search through all blocks.
#include "engine/runtime/first_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace recollect::test {
namespace {

struct Piece {
  int64_t begin, end;
  uint64_t bytes, offset;
};

uint64_t search(std::vector<Piece> placed, const Piece& piece) {
  std::sort(placed.begin(), placed.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  uint64_t offset = 0;
  for (const Piece& other : placed) {
    if (other.begin > piece.end || piece.begin > other.end) continue;
    if (offset + piece.bytes <= other.offset) break;
    offset = std::max(offset, other.offset + other.bytes);
  }
  return offset;
}

TEST(FirstFit, IsTheLowestOffsetFreeDuringTheWholeLife) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t moments = 1 + random() % 60, longest = 1 + random() % moments;
    std::vector<Piece> pieces(1 + random() % 80);
    std::vector<int64_t> known;
    for (Piece& p : pieces) {
      p.begin = random() % moments;
      p.end = std::min<int64_t>(p.begin + random() % longest, moments);
      p.bytes = 64 * (1 + random() % 9);
      known.insert(known.end(), {p.begin, p.end});
    }
    FirstFit places(known);
    std::vector<Piece> placed;
    for (Piece& p : pieces) {
      p.offset = places.place(p.begin, p.end, p.bytes);
      ASSERT_EQ(p.offset, search(placed, p)) << trial;
      placed.push_back(p);
    }
  }
}

}  // namespace
}  // namespace recollect::test
