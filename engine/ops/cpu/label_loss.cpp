// Losses of classes and of numbers, and their gradients with respect to the logits. Losses are summed in
// double in blocks of a fixed size, and the blocks are added in order, so no bit depends on the number of
// threads.
#include <omp.h>

#include <cmath>

#include "engine/core/ignored_label.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"
#include "engine/ops/label_loss.h"

namespace recollect::cpu {

namespace {

class BlockedLoss : public Kernel {
 public:
  BlockedLoss(const OpView& view, int64_t count, int64_t block)
      : threads_(omp_get_max_threads()),
        count_(count),
        block_(block),
        gradient_(view.attributes().integer("gradient") != 0) {}
  std::size_t workspace_bytes() const override { return sizeof(double) * blocks(); }

 protected:
  bool makes_gradient(const KernelArgs& args) const { return gradient_ && args.state->training; }

  // Sets the loss to the sum of loss_of(first, last) over all blocks.
  template <typename F>
  void add_blocks(const KernelArgs& args, F loss_of) const {
    double* losses = reinterpret_cast<double*>(args.workspace);
    parallel_ranges(threads_, blocks(), [&](int64_t first, int64_t last, int) {
      for (int64_t b = first; b < last; ++b)
        losses[b] = loss_of(b * block_, std::min((b + 1) * block_, count_));
    });
    double sum = 0;
    for (int64_t b = 0; b < blocks(); ++b) sum += losses[b];
    double* loss = args.out[0].as<double>();
    *loss = args.accumulate ? *loss + sum : sum;
  }

 private:
  int64_t blocks() const { return (count_ + block_ - 1) / block_; }

  int threads_;
  int64_t count_, block_;
  bool gradient_;
};

template <typename A>
class CrossEntropyLoss : public BlockedLoss {
 public:
  explicit CrossEntropyLoss(const OpView& view)
      : BlockedLoss(view, view.in(1).shape.elements(), 16),
        targets_(view.in(1).shape.elements()),
        classes_(view.attributes().integer("classes")),
        columns_(view.attributes().integer("columns")) {}

  void run(const KernelArgs& args) override {
    const int32_t* targets = args.in[1].as<int32_t>();
    for (int64_t at = 0; at < targets_; ++at)
      if (targets[at] != kIgnoredLabel && (targets[at] < 0 || targets[at] >= classes_))
        throw no_such_class(targets[at], at, classes_, columns_);
    const A* logits = args.in[0].as<A>();
    const double* scale = args.in[2].as<double>();
    A* dlogits = makes_gradient(args) ? args.out[1].as<A>() : nullptr;
    add_blocks(args, [&](int64_t first, int64_t last) {
      double loss = 0;
      for (int64_t at = first; at < last; ++at) {
        const int64_t column = at % columns_, begin = at / columns_ * classes_ * columns_ + column;
        A* gradient = dlogits ? dlogits + begin : nullptr;
        loss += scale[column] * (columns_ == 1
                                     ? row<true>(logits + begin, targets[at], scale[column], gradient)
                                     : row<false>(logits + begin, targets[at], scale[column], gradient));
      }
      return loss;
    });
  }

 private:
  // Returns the negative log likelihood of a target, log(sum of exp(x - max)) - (x[target] - max), and writes
  // its gradient, scale * (softmax(x) - one_hot(target)). If kDense, the classes of a row are adjacent in
  // memory.
  template <bool kDense>
  double row(const A* x, int32_t target, double scale, A* dx) const {
    const int64_t step = kDense ? 1 : columns_;
    if (target == kIgnoredLabel) {
      for (int64_t j = 0; dx && j < classes_; ++j) dx[j * step] = A{};
      return 0;
    }
    float max = kDense ? greatest(x, classes_) : load(x[0]), sum = 0.0f;
    for (int64_t j = 1; !kDense && j < classes_; ++j) max = std::max(max, load(x[j * step]));
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < classes_; ++j) sum += fast_exp(load(x[j * step]) - max);
    const double above = load(x[target * step]) - max;  // read before the gradient may overwrite it
    if (dx) {
      const float s = static_cast<float>(scale / sum);
      const auto probability = static_cast<float>(std::exp(above) / sum);
#pragma omp simd
      for (int64_t j = 0; j < classes_; ++j) store(dx + j * step, s * fast_exp(load(x[j * step]) - max));
      store(dx + target * step, static_cast<float>(scale) * (probability - 1.0f));
    }
    return std::log(sum) - above;
  }

  int64_t targets_, classes_, columns_;
};

struct Squared {
  static float value(float x, float target) { return (x - target) * (x - target); }
  static float derivative(float x, float target) { return 2.0f * (x - target); }
};

// The cross-entropy of sigmoid(x), in a form that cannot overflow.
struct Sigmoid {
  static float value(float x, float target) {
    return std::max(x, 0.0f) - x * target + std::log1p(fast_exp(-std::fabs(x)));
  }
  static float derivative(float x, float target) { return sigmoid(x) - target; }
};

template <typename A, typename Form>
class ElementwiseLoss : public BlockedLoss {
 public:
  explicit ElementwiseLoss(const OpView& view) : BlockedLoss(view, view.in(0).shape.elements(), 1024) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    const float* targets = args.in[1].as<float>();
    const double scale = args.in[2].as<double>()[0];
    const auto s = static_cast<float>(scale);
    A* dx = makes_gradient(args) ? args.out[1].as<A>() : nullptr;
    add_blocks(args, [&](int64_t first, int64_t last) {
      double loss = 0;
      for (int64_t i = first; i < last; ++i)
        loss += std::isnan(targets[i]) ? 0.0f : Form::value(load(x[i]), targets[i]);
      if (dx)
        write_each(dx + first, last - first, [&](int64_t i) {
          const float target = targets[first + i];
          return std::isnan(target) ? 0.0f : s * Form::derivative(load(x[first + i]), target);
        });
      return scale * loss;
    });
  }
};

KernelPointer make_elementwise_loss(const OpView& view) {
  return with_activation_type(view.in(0).dtype, "elementwise_loss", [&]<typename A>() -> KernelPointer {
    if (view.attributes().text("form") == "squared")
      return std::make_unique<ElementwiseLoss<A, Squared>>(view);
    return std::make_unique<ElementwiseLoss<A, Sigmoid>>(view);
  });
}

}  // namespace

void register_label_loss(KernelTable& table) {
  add_kernel<CrossEntropyLoss>(table, "cross_entropy_loss");
  table.add("elementwise_loss", make_elementwise_loss);
}

}  // namespace recollect::cpu
