// What attention's forward and backward kernels share: sizes, index rules, and the layout of a thread's
// scratch.
//
// Both work strip by strip: a strip is kStrip queries of one head against all keys up to its last query. A
// thread holds one strip of scores and one head's keys and values, so memory grows with s, never with s * s.
// Every number of a head is computed by one thread in a fixed order.
#pragma once

#include <omp.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "engine/ops/cpu/dropout.h"
#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/tile_product.h"
#include "engine/runtime/kernel.h"

namespace recollect::cpu {

// Rows of scores are worked on in whole vectors, without remainders: what lies beyond the valid ones is set
// to zero.
inline int64_t whole_vectors(int64_t n) { return (n + 31) / 32 * 32; }  // of bf16

struct AttentionShape {
  explicit AttentionShape(const OpView& view)
      : threads(omp_get_max_threads()),
        heads(view.attributes().integer("heads")),
        head_size(view.attributes().integer("head_size")),
        length(view.attributes().integer("sequence_length")),
        first_head(view.attributes().integer("first_head")),
        all_heads(view.attributes().integer("all_heads")),
        samples(view.in(0).shape[0] / length),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)))) {}

  // Scratch rows are padded to whole vectors and whole panels, with zeros.
  int64_t padded_size() const { return (head_size + kVector - 1) / kVector * kVector; }
  int64_t padded_length() const { return (length + kPanel - 1) / kPanel * kPanel; }
  int64_t qkv_row() const { return 3 * heads * head_size; }
  int64_t out_row() const { return heads * head_size; }
  int64_t units() const { return samples * heads; }  // unit = sample * heads + head

  // Where q (part 0), k (1) or v (2) of a unit begins in qkv.
  int64_t qkv_at(int64_t unit, int part) const {
    return unit / heads * length * qkv_row() + (part * heads + unit % heads) * head_size;
  }
  int64_t out_at(int64_t unit) const { return unit / heads * length * out_row() + unit % heads * head_size; }

  // The dropout index of (query, key 0).
  uint64_t probability_at(const RunState& state, int64_t unit, int64_t query) const {
    const int64_t head = (state.first_sample + unit / heads) * all_heads + first_head + unit % heads;
    return (static_cast<uint64_t>(head) * length + query) * length;
  }

  int threads;
  int64_t heads, head_size, length, first_head, all_heads, samples;
  float scale;
};

inline constexpr int64_t kStrip = 48;  // a multiple of the register block's rows

// Cuts a thread's scratch into float arrays.
class Scratch {
 public:
  explicit Scratch(std::byte* at) : at_(reinterpret_cast<float*>(at)) {}
  float* take(int64_t floats) { return std::exchange(at_, at_ + floats); }

 private:
  float* at_;
};

template <typename A>
class AttentionKernel : public Kernel {
 public:
  explicit AttentionKernel(const OpView& view)
      : shape_(view),
        dropout_(view.attributes()),
        size_(shape_.padded_size()),
        keys_(shape_.padded_length()),
        strip_row_(keys_ + kVector) {}

 protected:
  // to[i, 0..d) = scale * from[i, 0..d) for `rows` rows; padding is left alone.
  void load_rows(const A* from, int64_t from_row, int64_t rows, float scale, float* to) const {
    for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
      for (int64_t c = 0; c < shape_.head_size; ++c) to[i * size_ + c] = scale * load(from[i * from_row + c]);
  }

  // Transposes all rows into panels of kPanel keys: element (c, key) stands at [key / 64][c][key % 64].
  void load_transposed(const A* from, float* to) const {
    for (int64_t key = 0; key < shape_.length; ++key) {
      const A* row = from + key * shape_.qkv_row();
      float* column = to + key / kPanel * kPanel * shape_.head_size + key % kPanel;
      for (int64_t c = 0; c < shape_.head_size; ++c) column[c * kPanel] = load(row[c]);
    }
  }

  // out[rows, panels * 64] = rows_of [rows, d] times the panels.
  void against_panels(int64_t rows, int64_t panels, const float* rows_of, const float* panel,
                      float* out) const {
    const int64_t d = shape_.head_size;
    for (int64_t p = 0; p < panels; ++p)
      tile_product(rows, kPanel, d, rows_of, size_, 1, panel + p * kPanel * d, kPanel, out + p * kPanel,
                   strip_row_, false);
  }

  AttentionShape shape_;
  Dropout dropout_;
  int64_t size_, keys_, strip_row_;
};

}  // namespace recollect::cpu
