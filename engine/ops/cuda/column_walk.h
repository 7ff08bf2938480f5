// How threads that stay with their columns walk over [rows, width] values (columns.h), and the memory that
// their sums need.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/graph/op_def.h"
#include "engine/runtime/cuda/cut.h"

namespace recollect::cuda {

struct ColumnWalk {
  static constexpr int kLanes = kWarp, kRows = 8;  // threads of a block: columns, rows

  ColumnWalk() = default;
  // `elements`: elements of a row that one thread handles.
  ColumnWalk(int64_t rows, int64_t width, int elements)
      : units(width / elements),
        tiles(ceil_div(units, kLanes)),
        blocks(std::min(ceil_div(rows, 4 * kRows), std::max<int64_t>(8 * kMultiprocessors / tiles, 1))),
        width(width) {}

  // Returns the bytes of partial results for `sums` sums per column.
  std::size_t partial_bytes(int sums) const { return sizeof(float) * sums * blocks * width; }

  int64_t units = 0, tiles = 0, blocks = 0, width = 0;
};

// For a value with one vector per thread.
inline ColumnWalk walk_of(const Value& value) {
  const int64_t width = value.shape[1];
  return {value.shape[0], width, row_vector(value.dtype, width)};
}

// Returns true if threads handle the elements whose random words are drawn together (WordGroup); only if
// vectors have several elements.
inline bool takes_word_groups(const OpView& view) {
  return view.attributes().real("p") > 0 && view.in(0).shape[1] % 64 == 0;
}

// For an op with dropout.
inline ColumnWalk walk_of_dropping(const OpView& view) {
  const Value& x = view.in(0);
  const int vector = row_vector(x.dtype, x.shape[1]);
  return {x.shape[0], x.shape[1], vector > 1 && takes_word_groups(view) ? 4 * vector : vector};
}

}  // namespace recollect::cuda
