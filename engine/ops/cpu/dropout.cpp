// Dropout, alone and with the bias before it and the residual after it: one pass over memory each.
#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/dropout_mask.h"
#include "engine/ops/cpu/row_kernel.h"
#include "engine/ops/token_numbers.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kRun = 256;  // number of multipliers held at a time

// The dropout multipliers of the elements of rows.
class RowDropout {
 public:
  RowDropout(const Attributes& attributes, int64_t width)
      : dropout_(attributes), numbers_(attributes, width) {}

  // The dropout of one run of the op.
  struct Rows {
    DropoutMask mask;
    const ElementNumbers& numbers;
    const RunState& state;

    // Sets out[i] to the multiplier of element [row, column + i]. The mask must be active.
    void multipliers(int64_t row, int64_t column, int64_t count, float* out) const {
      mask.multipliers(numbers.of(state, row, column), count, out);
    }
  };
  Rows rows(const RunState& state) const { return {dropout_.mask(state), numbers_, state}; }

 private:
  Dropout dropout_;
  ElementNumbers numbers_;
};

template <typename A>
class DropoutKernel : public RowKernel {
 public:
  explicit DropoutKernel(const OpView& view) : RowKernel(view), dropout_(view.attributes(), width_) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    const RowDropout::Rows dropout = dropout_.rows(*args.state);
    if (!dropout.mask.active()) return copy(x, y);
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      float keep[kRun];
      for (int64_t r = first; r < last; ++r)
        for (int64_t c = 0; c < width_; c += kRun) {
          const int64_t at = r * width_ + c, n = std::min(kRun, width_ - c);
          dropout.multipliers(r, c, n, keep);
          write_each(y + at, n, [&](int64_t j) { return load(x[at + j]) * keep[j]; });
        }
    });
  }

 private:
  void copy(const A* x, A* y) const {
    if (x == y) return;
    parallel_ranges(threads_, rows_ * width_,
                    [&](int64_t first, int64_t last, int) { std::copy(x + first, x + last, y + first); });
  }

  RowDropout dropout_;
};

template <typename A>
class BiasDropoutAdd : public RowKernel {
 public:
  explicit BiasDropoutAdd(const OpView& view) : RowKernel(view), dropout_(view.attributes(), width_) {}

  void run(const KernelArgs& args) override {
    const A *x = args.in[0].as<A>(), *residual = args.in[2].as<A>();
    const float* bias = args.in[1].as<float>();
    A* y = args.out[0].as<A>();
    const RowDropout::Rows dropout = dropout_.rows(*args.state);
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      float keep[kRun];
      std::fill_n(keep, kRun, 1.0f);
      for (int64_t r = first; r < last; ++r) {
        for (int64_t c = 0; c < width_; c += kRun) {
          const int64_t at = r * width_ + c, n = std::min(kRun, width_ - c);
          if (dropout.mask.active()) dropout.multipliers(r, c, n, keep);
          write_each(y + at, n, [&](int64_t j) {
            return load(residual[at + j]) + (load(x[at + j]) + bias[c + j]) * keep[j];
          });
        }
      }
    });
  }

 private:
  RowDropout dropout_;
};

template <typename A>
class BiasDropoutAddBackward : public RowKernel {
 public:
  explicit BiasDropoutAddBackward(const OpView& view)
      : RowKernel(view), dropout_(view.attributes(), width_), sums_(threads_, rows_, width_) {}
  std::size_t workspace_bytes() const override { return sums_.workspace_bytes(); }

  void run(const KernelArgs& args) override {
    const A* dy = args.in[0].as<A>();
    A* dx = args.out[0].as<A>();
    const RowDropout::Rows dropout = dropout_.rows(*args.state);
    sums_.run(args.workspace, args.out[1].as<float>(), args.accumulate, [&](int64_t r, float* sum) {
      float keep[kRun];
      std::fill_n(keep, kRun, 1.0f);
      for (int64_t c = 0; c < width_; c += kRun) {
        const int64_t at = r * width_ + c, n = std::min(kRun, width_ - c);
        if (dropout.mask.active()) dropout.multipliers(r, c, n, keep);
        write_each(dx + at, n, [&](int64_t j) {
          const float g = load(dy[at + j]) * keep[j];
          sum[c + j] += g;
          return g;
        });
      }
    });
  }

 private:
  RowDropout dropout_;
  ColumnSums sums_;
};

}  // namespace

void register_dropout(KernelTable& table) {
  add_kernel<DropoutKernel>(table, "dropout");
  add_kernel<BiasDropoutAdd>(table, "bias_dropout_add");
  add_kernel<BiasDropoutAddBackward>(table, "bias_dropout_add_backward");
}

}  // namespace recollect::cpu
