// How threads that stay with their columns go over [rows, width] values (columns.h), and what they need of memory for sums.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/graph/op_def.h"
#include "engine/runtime/cuda/cut.h"

namespace recollect::cuda {

struct ColumnWalk {
  static constexpr int kLanes = kWarp, kRows = 8;  // of a block

  ColumnWalk() = default;
  // `elements`: of a row that a thread has.
  ColumnWalk(int64_t rows, int64_t width, int elements)
      : units(width / elements),
        tiles(ceil_div(units, kLanes)),
        blocks(std::min(ceil_div(rows, 4 * kRows), std::max<int64_t>(8 * kMultiprocessors / tiles, 1))),
        width(width) {}

  // Of so many sums for each column.
  std::size_t partial_bytes(int sums) const { return sizeof(float) * sums * blocks * width; }

  int64_t units = 0, tiles = 0, blocks = 0, width = 0;
};

// Of a value whose threads have a vector each.
inline ColumnWalk walk_of(const Value& value) {
  const int64_t width = value.shape[1];
  return {value.shape[0], width, row_vector(value.dtype, width)};
}

// Whether threads have the elements whose random words are drawn together (WordGroup), where vectors have several.
inline bool takes_word_groups(const OpView& view) {
  return view.attributes().real("p") > 0 && view.in(0).shape[1] % 64 == 0;
}

// Of an op that drops.
inline ColumnWalk walk_of_dropping(const OpView& view) {
  const Value& x = view.in(0);
  const int vector = row_vector(x.dtype, x.shape[1]);
  return {x.shape[0], x.shape[1], vector > 1 && takes_word_groups(view) ? 4 * vector : vector};
}

}  // namespace recollect::cuda
