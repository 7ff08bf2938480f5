// What attention's two kernels for any processor share: operands in float, products by tile_product.h.
#pragma once

#include "engine/ops/cpu/attention.h"
#include "engine/ops/cpu/transpose.h"

namespace recollect::cpu {

template <typename A>
class VectorTiles {
 public:
  using Element = A;
  struct Registers {};
  static constexpr int64_t kStrip = 48, kBlock = kStrip;  // a multiple of the register block's rows

  explicit VectorTiles(const AttentionShape& shape)
      : shape_(shape),
        size_((shape.head_size + kVector - 1) / kVector * kVector),
        keys_(whole_panels(shape.length)) {}

  std::size_t bytes() const { return bytes_; }
  static constexpr float score_scale() { return 1.0f; }  // queries are scaled as they are loaded
  int64_t columns() const { return shape_.head_size; }

 protected:
  // Scratch rows are padded to whole vectors, with zeros that stay.
  void clear(std::byte* start, const Scratch& scratch) {
    bytes_ = scratch.used();
    if (start) std::fill_n(reinterpret_cast<float*>(start), bytes_ / sizeof(float), 0.0f);
  }

  // to[i, 0..d) = scale * from[i, 0..d) for `rows` rows; padding is left alone.
  void load_rows(const A* from, int64_t from_row, int64_t rows, float scale, float* to) const {
    for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
      for (int64_t c = 0; c < shape_.head_size; ++c) to[i * size_ + c] = scale * load(from[i * from_row + c]);
  }

  // The rows of `keys` keys, and zeros up to whole panels: products take those times zero.
  void load_keys_as_rows(const A* from, int64_t keys, float* to) const {
    load_rows(from, shape_.kv_row, keys, 1.0f, to);
    std::fill(to + keys * size_, to + whole_panels(keys) * size_, 0.0f);
  }

  // The same transposed into panels of kPanel keys: element (c, key) stands at [key / 64][c][key % 64].
  void load_keys_as_columns(const A* from, int64_t keys, float* to) const {
    const int64_t d = shape_.head_size;
    for (int64_t key = 0; key < keys; key += kPanel) {
      const int64_t wide = std::min(kPanel, keys - key);
      float* panel = to + key * d;
      transpose(from + key * shape_.kv_row, shape_.kv_row, wide, d, panel, kPanel);
      for (int64_t c = 0; c < d && wide < kPanel; ++c)
        std::fill(panel + c * kPanel + wide, panel + (c + 1) * kPanel, 0.0f);
    }
  }

  // out[rows, 64] = rows_of [rows, d] times the panel of keys from `key` on.
  void against_panel(int64_t rows, int64_t key, const float* rows_of, const float* panels, float* out,
                     int64_t out_row) const {
    const int64_t d = shape_.head_size;
    tile_product(rows, kPanel, d, rows_of, size_, 1, panels + key * d, kPanel, out, out_row, false);
  }

  const AttentionShape& shape_;
  int64_t size_, keys_;  // head_size and length, padded

 private:
  std::size_t bytes_ = 0;
};

}  // namespace recollect::cpu
