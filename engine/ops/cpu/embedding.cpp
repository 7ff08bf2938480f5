// Table look-ups and their gradients. Gradients are divided by columns or by positions, so that every number
// is added up by one thread in token order.
#include <omp.h>

#include <algorithm>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kColumnGrain = 16;  // one cache line of floats

template <typename A>
class Embedding : public Kernel {
 public:
  explicit Embedding(const OpView& view)
      : threads_(omp_get_max_threads()),
        tokens_(view.in(0).shape.elements()),
        table_rows_(view.in(1).shape[0]),
        width_(view.in(1).shape[1]),
        first_row_(view.attributes().integer("first_row")) {}

  void run(const KernelArgs& args) override {
    const int32_t* ids = args.in[0].as<int32_t>();
    const A* table = args.in[1].as<A>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, tokens_, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t row = ids[i] - first_row_;
        if (row >= 0 && row < table_rows_)
          std::copy_n(table + row * width_, width_, y + i * width_);
        else
          std::fill_n(y + i * width_, width_, A{});
      }
    });
  }

 private:
  int threads_;
  int64_t tokens_, table_rows_, width_, first_row_;
};

template <typename A>
class EmbeddingBackward : public Kernel {
 public:
  explicit EmbeddingBackward(const OpView& view)
      : threads_(omp_get_max_threads()),
        tokens_(view.in(0).shape.elements()),
        table_rows_(view.out(0).shape[0]),
        width_(view.out(0).shape[1]),
        first_row_(view.attributes().integer("first_row")) {}

  void run(const KernelArgs& args) override {
    const int32_t* ids = args.in[0].as<int32_t>();
    const A* dy = args.in[1].as<A>();
    float* dtable = args.out[0].as<float>();
    if (!args.accumulate)
      parallel_ranges(threads_, table_rows_ * width_, [&](int64_t first, int64_t last, int) {
        std::fill(dtable + first, dtable + last, 0.0f);
      });
    parallel_grains(threads_, width_, kColumnGrain, [&](int64_t first, int64_t last, int) {
      for (int64_t i = 0; i < tokens_; ++i) {
        const int64_t row = ids[i] - first_row_;
        if (row < 0 || row >= table_rows_) continue;
        float* to = dtable + row * width_;
        const A* from = dy + i * width_;
#pragma omp simd
        for (int64_t c = first; c < last; ++c) to[c] += load(from[c]);
      }
    });
  }

 private:
  int threads_;
  int64_t tokens_, table_rows_, width_, first_row_;
};

// Token i stands at position (first_token + i) % sequence_length.
template <typename A>
class AddPosition : public Kernel {
 public:
  explicit AddPosition(const OpView& view)
      : threads_(omp_get_max_threads()),
        tokens_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        sequence_length_(view.attributes().integer("sequence_length")),
        first_token_(view.attributes().integer("first_token")) {}

  void run(const KernelArgs& args) override {
    const A *x = args.in[0].as<A>(), *table = args.in[1].as<A>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, tokens_, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const A* position = table + (first_token_ + i) % sequence_length_ * width_;
        const int64_t at = i * width_;
#pragma omp simd
        for (int64_t c = 0; c < width_; ++c) store(y + at + c, load(x[at + c]) + load(position[c]));
      }
    });
  }

 private:
  int threads_;
  int64_t tokens_, width_, sequence_length_, first_token_;
};

template <typename A>
class AddPositionBackward : public Kernel {
 public:
  explicit AddPositionBackward(const OpView& view)
      : threads_(omp_get_max_threads()),
        tokens_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        positions_(view.out(0).shape[0]),
        sequence_length_(view.attributes().integer("sequence_length")),
        first_token_(view.attributes().integer("first_token") % sequence_length_) {}

  void run(const KernelArgs& args) override {
    const A* dy = args.in[0].as<A>();
    float* dtable = args.out[0].as<float>();
    parallel_ranges(threads_, positions_, [&](int64_t first, int64_t last, int) {
      for (int64_t p = first; p < last; ++p) {
        float* to = dtable + p * width_;
        if (!args.accumulate) std::fill_n(to, width_, 0.0f);
        if (p >= sequence_length_) continue;
        for (int64_t i = (p - first_token_ + sequence_length_) % sequence_length_; i < tokens_;
             i += sequence_length_) {
          const A* from = dy + i * width_;
#pragma omp simd
          for (int64_t c = 0; c < width_; ++c) to[c] += load(from[c]);
        }
      }
    });
  }

 private:
  int threads_;
  int64_t tokens_, width_, positions_, sequence_length_, first_token_;
};

}  // namespace

void register_embedding(KernelTable& table) {
  add_kernel<Embedding>(table, "embedding", 1);
  add_kernel<EmbeddingBackward>(table, "embedding_backward", 1);
  add_kernel<AddPosition>(table, "add_position");
  add_kernel<AddPositionBackward>(table, "add_position_backward");
}

}  // namespace recollect::cpu
