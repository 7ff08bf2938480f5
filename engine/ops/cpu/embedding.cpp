// Table look-ups and their gradients, and the rows of activations that begin a sample. Gradients are divided
// by columns or by positions, so that every number is summed by one thread in token order. A table of few
// rows, each used by very many tokens, has its gradient computed as column sums.
#include <omp.h>

#include <algorithm>
#include <optional>

#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/row_kernel.h"
#include "engine/ops/sequences.h"

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

// Adds each token's row of dy to the row row_of(token) of the table's gradient; a negative row means none.
struct TableGradient {
  int threads;
  int64_t tokens, rows, width;

  template <typename A, typename RowOf>
  void run(const A* dy, float* dtable, bool accumulate, RowOf row_of) const {
    if (!accumulate)
      parallel_ranges(threads, rows * width, [&](int64_t first, int64_t last, int) {
        std::fill(dtable + first, dtable + last, 0.0f);
      });
    parallel_grains(threads, width, kColumnGrain, [&](int64_t first, int64_t last, int) {
      for (int64_t i = 0; i < tokens; ++i) {
        const int64_t row = row_of(i);
        if (row < 0 || row >= rows) continue;
        float* to = dtable + row * width;
        const A* from = dy + i * width;
#pragma omp simd
        for (int64_t c = first; c < last; ++c) to[c] += load(from[c]);
      }
    });
  }
};

template <typename A>
class EmbeddingBackward : public Kernel {
 public:
  explicit EmbeddingBackward(const OpView& view)
      : gradient_{omp_get_max_threads(), view.in(0).shape.elements(), view.out(0).shape[0],
                  view.out(0).shape[1]},
        first_row_(view.attributes().integer("first_row")),
        padding_id_(unlearnt_id(view.attributes())) {}

  void run(const KernelArgs& args) override {
    const int32_t* ids = args.in[0].as<int32_t>();
    gradient_.run(args.in[1].as<A>(), args.out[0].as<float>(), args.accumulate,
                  [&](int64_t i) { return ids[i] == padding_id_ ? -1 : ids[i] - first_row_; });
  }

 private:
  TableGradient gradient_;
  int64_t first_row_, padding_id_;
};

// y = x + table[position]. Token i is at position (first_token + i) % sequence_length.
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

template <typename A>
class AddEmbedding : public RowKernel {
 public:
  explicit AddEmbedding(const OpView& view)
      : RowKernel(view),
        table_rows_(view.in(2).shape[0]),
        first_token_(view.attributes().integer("first_token")) {}

  void run(const KernelArgs& args) override {
    const A *x = args.in[0].as<A>(), *table = args.in[2].as<A>();
    const int32_t* ids = args.in[1].as<int32_t>() + first_token_;
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const A* from = x + i * width_;
        if (ids[i] >= 0 && ids[i] < table_rows_) {
          const A* row = table + ids[i] * width_;
          write_each(y + i * width_, width_, [&](int64_t c) { return load(from[c]) + load(row[c]); });
        } else if (x != y) {
          std::copy_n(from, width_, y + i * width_);
        }
      }
    });
  }

 private:
  int64_t table_rows_, first_token_;
};

template <typename A>
class AddEmbeddingBackward : public RowKernel {
 public:
  explicit AddEmbeddingBackward(const OpView& view)
      : RowKernel(view),
        first_token_(view.attributes().integer("first_token")),
        padding_id_(unlearnt_id(view.attributes())),
        gradient_{threads_, rows_, view.out(0).shape[0], width_} {
    if (gradient_.rows <= kFewRows) sums_.emplace(threads_, rows_, gradient_.rows * width_);
  }
  std::size_t workspace_bytes() const override { return sums_ ? sums_->workspace_bytes() : 0; }

  void run(const KernelArgs& args) override {
    const A* dy = args.in[0].as<A>();
    const int32_t* ids = args.in[1].as<int32_t>() + first_token_;
    float* dtable = args.out[0].as<float>();
    if (!sums_)
      return gradient_.run(dy, dtable, args.accumulate,
                           [&](int64_t i) { return ids[i] == padding_id_ ? -1 : ids[i]; });
    sums_->run(args.workspace, dtable, args.accumulate, [&](int64_t i, float* sum) {
      if (ids[i] < 0 || ids[i] >= gradient_.rows || ids[i] == padding_id_) return;
      float* to = sum + ids[i] * width_;
      const A* from = dy + i * width_;
#pragma omp simd
      for (int64_t c = 0; c < width_; ++c) to[c] += load(from[c]);
    });
  }

 private:
  static constexpr int64_t kFewRows = 4;

  int64_t first_token_, padding_id_;
  TableGradient gradient_;
  std::optional<ColumnSums> sums_;  // over all rows of a small table, side by side
};

template <typename A>
class FirstTokens : public RowKernel {
 public:
  explicit FirstTokens(const OpView& view)
      : RowKernel(view),
        samples_(view.out(0).shape[0]),
        sequence_length_(view.attributes().integer("sequence_length")),
        first_token_(view.attributes().integer("first_token")) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    const int32_t* which = args.in.size() > 1 ? args.in[1].as<int32_t>() : nullptr;
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, samples_, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t row = (which ? which[i] : i * sequence_length_) - first_token_;
        if (row >= 0 && row < rows_)
          std::copy_n(x + row * width_, width_, y + i * width_);
        else
          std::fill_n(y + i * width_, width_, A{});
      }
    });
  }

 private:
  int64_t samples_, sequence_length_, first_token_;
};

template <typename A>
class FirstTokensBackward : public RowKernel {
 public:
  explicit FirstTokensBackward(const OpView& view)
      : RowKernel(view),
        tokens_(view.out(0).shape[0]),
        sequence_length_(view.attributes().integer("sequence_length")),
        first_token_(view.attributes().integer("first_token")) {}

  void run(const KernelArgs& args) override {
    const A* dy = args.in[0].as<A>();
    A* dx = args.out[0].as<A>();
    if (args.in.size() > 1) return scatter(dy, args.in[1].as<int32_t>(), dx);
    parallel_ranges(threads_, tokens_, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t token = first_token_ + i;
        if (token % sequence_length_ == 0)
          std::copy_n(dy + token / sequence_length_ * width_, width_, dx + i * width_);
        else
          std::fill_n(dx + i * width_, width_, A{});
      }
    });
  }

 private:
  void scatter(const A* dy, const int32_t* which, A* dx) const {
    parallel_ranges(threads_, tokens_, [&](int64_t first, int64_t last, int) {
      std::fill(dx + first * width_, dx + last * width_, A{});
      for (int64_t i = 0; i < rows_; ++i) {
        const int64_t row = which[i] - first_token_;
        if (which[i] >= 0 && row >= first && row < last)
          std::copy_n(dy + i * width_, width_, dx + row * width_);
      }
    });
  }

  int64_t tokens_, sequence_length_, first_token_;
};

}  // namespace

void register_embedding(KernelTable& table) {
  add_kernel<Embedding>(table, "embedding", 1);
  add_kernel<EmbeddingBackward>(table, "embedding_backward", 1);
  add_kernel<AddPosition>(table, "add_position");
  add_kernel<AddPositionBackward>(table, "add_position_backward");
  add_kernel<AddEmbedding>(table, "add_embedding");
  add_kernel<AddEmbeddingBackward>(table, "add_embedding_backward");
  add_kernel<FirstTokens>(table, "first_tokens");
  add_kernel<FirstTokensBackward>(table, "first_tokens_backward");
}

}  // namespace recollect::cpu
