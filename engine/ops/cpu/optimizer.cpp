// The update rules of optimizers. Each is one pass over memory and is limited by memory bandwidth.
#include "engine/ops/optimizer.h"

#include <omp.h>

#include <cmath>

#include "engine/ops/cpu/block_rounding.h"
#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kUpdateGrain = 1 << 12;

template <typename A, typename Rule>
class Update : public Kernel {
 public:
  explicit Update(const OpView& view)
      : threads_(omp_get_max_threads()),
        settings_(view.attributes()),
        cast_(view.attributes().integer("cast") != 0) {}

  void run(const KernelArgs& args) override {
    constexpr int kMoments = Rule::kMoments;
    const double clip = *args.in[1].as<double>();
    if (std::isnan(clip)) return;
    const auto numbers = step_numbers<float>(args.in[0].as<double>(), clip, settings_);
    const Elements all{.g = args.in[2].as<float>(),
                       .w = args.out[0].as<float>(),
                       .m = args.out[1].as<float>(),
                       .v = kMoments > 1 ? args.out[kMoments].as<float>() : nullptr,
                       .param = cast_ ? args.out[1 + kMoments].as<A>() : nullptr};
    parallel_grains(threads_, args.in[2].elements(), kUpdateGrain, [&](int64_t first, int64_t last, int) {
      if (cast_)
        update<true>(numbers, all, first, last);
      else
        update<false>(numbers, all, first, last);
    });
  }

 private:
  struct Elements {
    const float* g;
    float *w, *m, *v;  // v is null if the rule has one moment
    A* param;          // null if there is no copy
  };

  // Everything is passed by value: a loop would read values behind a reference again for every element.
  template <bool kCast>
  static void update(const StepNumbers<float> s, const Elements e, int64_t first, int64_t last) {
    const float* const g = e.g;
    float *const w = e.w, *const m = e.m;
    [[maybe_unused]] float* const v = e.v;
    [[maybe_unused]] A* const param = e.param;
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      if constexpr (Rule::kMoments > 1)
        Rule::update(s, g[i], w[i], m[i], v[i]);
      else
        Rule::update(s, g[i], w[i], m[i]);
      if constexpr (kCast) store(param + i, w[i]);
    }
  }

  int threads_;
  UpdateSettings settings_;
  bool cast_;
};

// Updates a bf16 matrix that is its own master copy, with stochastic rounding.
template <typename Rule>
class RoundedUpdate : public Kernel {
 public:
  explicit RoundedUpdate(const OpView& view)
      : threads_(omp_get_max_threads()), settings_(view.attributes()), rounding_(view) {}

  void run(const KernelArgs& args) override {
    const double clip = *args.in[1].as<double>();
    if (std::isnan(clip)) return;
    const auto numbers = step_numbers<float>(args.in[0].as<double>(), clip, settings_);
    const RoundKeys keys = rounding_.keys(*args.state);
    const int64_t rows = args.in[2].shape[0], columns = args.in[2].shape[1];
    parallel_ranges(threads_, rows, [&](int64_t first, int64_t last, int) {
      for (int64_t row = first; row < last; ++row)
        for (int64_t column = 0, count = 0; column < columns; column += count) {
          count = std::min(rounding_.piece(row, column), columns - column);
          update(numbers, keys, args, row, column, count);
        }
    });
  }

 private:
  void update(const StepNumbers<float> s, const RoundKeys& keys, const KernelArgs& args, int64_t row,
              int64_t column, int64_t count) const {
    constexpr int kMoments = Rule::kMoments;
    const int64_t at = row * args.in[2].shape[1] + column;
    alignas(64) float w[BlockRounding::kMost];
    rounding_.read(args.out[0], at, count, w);
    const float* const g = args.in[2].as<float>() + at;
    float* const m = args.out[1].as<float>() + at;
    [[maybe_unused]] float* const v = args.out[kMoments].as<float>() + at;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kMoments > 1)
        Rule::update(s, g[i], w[i], m[i], v[i]);
      else
        Rule::update(s, g[i], w[i], m[i]);
    }
    rounding_.write(w, keys, row, column, count, args.out[0], at);
  }

  int threads_;
  UpdateSettings settings_;
  BlockRounding rounding_;
};

// A is the dtype of the parameter's copy; it is irrelevant without one.
template <typename Rule>
void add_rule(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) {
    if (view.in(2).dtype != DType::kF32) with_activation_type(DType::kF64, kind, []<typename A>() {});
    if (view.out(0).dtype == DType::kBF16) return KernelPointer(std::make_unique<RoundedUpdate<Rule>>(view));
    const bool cast = view.attributes().integer("cast") != 0;
    return with_activation_type(
        cast ? view.out(1 + Rule::kMoments).dtype : DType::kF32, kind,
        [&]<typename A>() -> KernelPointer { return std::make_unique<Update<A, Rule>>(view); });
  });
}

}  // namespace

void register_optimizer(KernelTable& table) {
  add_rule<AdamwRule>(table, "adamw");
  add_rule<AdamwHfRule>(table, "adamw_hf");
  add_rule<AdamRule>(table, "adam");
  add_rule<SgdRule>(table, "sgd");
  add_rule<LionRule>(table, "lion");
}

}  // namespace recollect::cpu
