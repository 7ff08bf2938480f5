// Gradient norm, clipping and the update rules: one pass over memory each, bounded by its bandwidth. The
// squared norm adds up fixed blocks in order, so it does not depend on the thread count either.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "engine/ops/clip.h"
#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kNormBlock = 1 << 15;
constexpr int64_t kUpdateGrain = 1 << 12;

class SquaredNorm : public Kernel {
 public:
  explicit SquaredNorm(const OpView& view) : threads_(omp_get_max_threads()) {
    for (std::size_t i = 0; i < view.op.inputs.size(); ++i) {
      const int64_t elements = view.in(static_cast<int>(i)).shape.elements();
      begins_.push_back(blocks_);
      blocks_ += elements / kNormBlock + (elements % kNormBlock != 0);
    }
  }

  std::size_t workspace_bytes() const override {
    return sizeof(double) * static_cast<std::size_t>(std::max<int64_t>(blocks_, 1));
  }

  void run(const KernelArgs& args) override {
    double* partial = reinterpret_cast<double*>(args.workspace);
    parallel_ranges(threads_, blocks_, [&](int64_t first, int64_t last, int) {
      for (int64_t b = first; b < last; ++b) partial[b] = squares_of_block(args, b);
    });
    double sum = 0;
    for (int64_t b = 0; b < blocks_; ++b) sum += partial[b];
    *args.out[0].as<double>() = sum;
  }

 private:
  double squares_of_block(const KernelArgs& args, int64_t block) const {
    const auto behind = std::upper_bound(begins_.begin(), begins_.end(), block);
    const Tensor& in = args.in[static_cast<std::size_t>(behind - begins_.begin() - 1)];
    const int64_t first = (block - *std::prev(behind)) * kNormBlock;
    return squares(in.as<float>() + first, std::min(kNormBlock, in.elements() - first));
  }

  static double squares(const float* x, int64_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
    return sum;
  }

  int threads_;
  std::vector<int64_t> begins_;  // by input: its first block
  int64_t blocks_ = 0;
};

class ClipFactor : public Kernel {
 public:
  explicit ClipFactor(double max_norm) : max_norm_(max_norm) {}

  void run(const KernelArgs& args) override {
    const double loss_scale = args.in.size() > 2 && args.in[2].defined() ? *args.in[2].as<double>() : 1.0;
    const auto [norm, factor] =
        clip(*args.in[0].as<double>() + *args.in[1].as<double>(), max_norm_, loss_scale);
    *args.out[0].as<double>() = norm;
    *args.out[1].as<double>() = factor;
  }

 private:
  double max_norm_;
};

// The numbers of one step that all elements share, rounded to float once.
struct StepNumbers {
  float clip, rate, decay, beta2, epsilon, step_size, inverse_root;
  float rest1, rest2;  // 1 - beta1 and 1 - beta2, taken in double
};

// torch.optim.AdamW: decay first; epsilon added to the corrected root of v.
struct AdamwRule {
  static void update(const StepNumbers& s, float g, float& w, float& m, float& v) {
    w -= s.rate * s.decay * w;
    m += s.rest1 * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    w -= s.step_size * m / (__builtin_sqrtf(v) * s.inverse_root + s.epsilon);
  }
};

// torch.optim.Adam: decay is part of the gradient.
struct AdamRule {
  static void update(const StepNumbers& s, float g, float& w, float& m, float& v) {
    g += s.decay * w;
    m += s.rest1 * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    w -= s.step_size * m / (__builtin_sqrtf(v) * s.inverse_root + s.epsilon);
  }
};

// transformers' former AdamW: epsilon added to the uncorrected root, and decay last.
struct AdamwHfRule {
  static void update(const StepNumbers& s, float g, float& w, float& m, float& v) {
    m += s.rest1 * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    w -= s.step_size / s.inverse_root * m / (__builtin_sqrtf(v) + s.epsilon);
    w -= s.rate * s.decay * w;
  }
};

template <typename A, typename Rule>
class AdamUpdate : public Kernel {
 public:
  explicit AdamUpdate(const OpView& view)
      : threads_(omp_get_max_threads()),
        beta1_(view.attributes().real("beta1")),
        beta2_(view.attributes().real("beta2")),
        epsilon_(view.attributes().real("epsilon")),
        weight_decay_(view.attributes().real("weight_decay")),
        cast_(view.attributes().integer("cast") != 0) {}

  void run(const KernelArgs& args) override {
    if (std::isnan(*args.in[1].as<double>())) return;
    const StepNumbers s = numbers(args.in[0].as<double>(), *args.in[1].as<double>());
    const Elements all{.g = args.in[2].as<float>(),
                       .w = args.out[0].as<float>(),
                       .m = args.out[1].as<float>(),
                       .v = args.out[2].as<float>(),
                       .param = cast_ ? args.out[3].as<A>() : nullptr};
    parallel_grains(threads_, args.in[2].elements(), kUpdateGrain,
                    [&](int64_t first, int64_t last, int) { update(s, all, first, last); });
  }

 private:
  struct Elements {
    const float* g;
    float *w, *m, *v;
    A* param;  // null where there is no copy
  };

  // Everything by value: what a loop reads through a reference, it reads again for every element.
  static void update(const StepNumbers s, const Elements e, int64_t first, int64_t last) {
    const float* const g = e.g;
    float *const w = e.w, *const m = e.m, *const v = e.v;
    A* const param = e.param;
    if (param) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) {
        Rule::update(s, g[i] * s.clip, w[i], m[i], v[i]);
        store(param + i, w[i]);
      }
    } else {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) Rule::update(s, g[i] * s.clip, w[i], m[i], v[i]);
    }
  }

  StepNumbers numbers(const double* schedule, double clip) const {
    const double rate = schedule[0], correction1 = schedule[1], correction2 = schedule[2];
    return {.clip = static_cast<float>(clip),
            .rate = static_cast<float>(rate),
            .decay = static_cast<float>(weight_decay_),
            .beta2 = static_cast<float>(beta2_),
            .epsilon = static_cast<float>(epsilon_),
            .step_size = static_cast<float>(rate / correction1),
            .inverse_root = static_cast<float>(1.0 / std::sqrt(correction2)),
            .rest1 = static_cast<float>(1.0 - beta1_),
            .rest2 = static_cast<float>(1.0 - beta2_)};
  }

  int threads_;
  double beta1_, beta2_, epsilon_, weight_decay_;
  bool cast_;
};

template <typename A>
class SgdUpdate : public Kernel {
 public:
  explicit SgdUpdate(const OpView& view)
      : threads_(omp_get_max_threads()),
        momentum_(static_cast<float>(view.attributes().real("momentum"))),
        weight_decay_(static_cast<float>(view.attributes().real("weight_decay"))),
        cast_(view.attributes().integer("cast") != 0) {}

  void run(const KernelArgs& args) override {
    const float rate = static_cast<float>(args.in[0].as<double>()[0]);
    const float clip = static_cast<float>(*args.in[1].as<double>());
    if (std::isnan(clip)) return;
    const float* g = args.in[2].as<float>();
    float *w = args.out[0].as<float>(), *m = args.out[1].as<float>();
    A* param = cast_ ? args.out[2].as<A>() : nullptr;
    parallel_grains(threads_, args.in[2].elements(), kUpdateGrain, [&](int64_t first, int64_t last, int) {
      update(rate, clip, momentum_, weight_decay_, g + first, w + first, m + first, last - first);
      if (param) copy(w + first, param + first, last - first);
    });
  }

 private:
  static void update(float rate, float clip, float momentum, float decay, const float* g, float* w, float* m,
                     int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      m[i] = momentum * m[i] + (g[i] * clip + decay * w[i]);
      w[i] -= rate * m[i];
    }
  }

  static void copy(const float* w, A* param, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) store(param + i, w[i]);
  }

  int threads_;
  float momentum_, weight_decay_;
  bool cast_;
};

// A is the dtype of the parameter's copy; without one it does not matter.
template <typename F>
KernelPointer make_update(const OpView& view, const char* kind, int copy, F f) {
  if (view.in(2).dtype != DType::kF32) with_activation_type(DType::kF64, kind, []<typename A>() {});
  const bool cast = view.attributes().integer("cast") != 0;
  return with_activation_type(cast ? view.out(copy).dtype : DType::kF32, kind, f);
}

template <typename Rule>
KernelPointer make_adam_update(const OpView& view, const char* kind) {
  return make_update(view, kind, 3, [&]<typename A>() -> KernelPointer {
    return std::make_unique<AdamUpdate<A, Rule>>(view);
  });
}

}  // namespace

KernelPointer make_squared_norm(const OpView& view) { return std::make_unique<SquaredNorm>(view); }

KernelPointer make_clip_factor(const OpView& view) {
  return std::make_unique<ClipFactor>(view.attributes().real("max_norm"));
}

KernelPointer make_adamw(const OpView& view) { return make_adam_update<AdamwRule>(view, "adamw"); }
KernelPointer make_adamw_hf(const OpView& view) { return make_adam_update<AdamwHfRule>(view, "adamw_hf"); }
KernelPointer make_adam(const OpView& view) { return make_adam_update<AdamRule>(view, "adam"); }

KernelPointer make_sgd(const OpView& view) {
  return make_update(view, "sgd", 2,
                     [&]<typename A>() -> KernelPointer { return std::make_unique<SgdUpdate<A>>(view); });
}

}  // namespace recollect::cpu
