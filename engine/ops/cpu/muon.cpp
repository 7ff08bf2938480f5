// Muon: each op is one pass over memory. Sums of squares are made in blocks of a fixed size and added in
// order, so they do not depend on the number of threads.
#include "engine/ops/muon.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kMuonBlock = 1 << 13;

void require_floats(const OpView& view, int input, const char* kind) {
  if (view.in(input).dtype != DType::kF32) with_activation_type(DType::kF64, kind, []<typename A>() {});
}

class MuonDirection final : public Kernel {
 public:
  explicit MuonDirection(const OpView& view)
      : s_(view.attributes()),
        threads_(omp_get_max_threads()),
        begin_(s_.first_row * view.in(1).shape[1]),
        elements_(s_.rows * view.in(1).shape[1]),
        blocks_((elements_ + kMuonBlock - 1) / kMuonBlock) {
    require_floats(view, 1, "muon_direction");
  }

  std::size_t workspace_bytes() const override { return sizeof(double) * static_cast<std::size_t>(blocks_); }

  void run(const KernelArgs& args) override {
    const double clip = *args.in[0].as<double>();
    float* const direction = args.out[1].as<float>();
    double* const square = args.out[2].as<double>();
    *square = 0;
    if (std::isnan(clip)) {
      std::fill_n(direction, elements_, 0.0f);
      return;
    }
    const float* const gradient = args.in[1].as<float>() + begin_;
    float* const buffer = args.out[0].as<float>() + begin_;
    double* const sums = reinterpret_cast<double*>(args.workspace);
    parallel_ranges(threads_, blocks_, [&](int64_t first, int64_t last, int) {
      for (int64_t b = first; b < last; ++b)
        sums[b] = block(gradient, buffer, direction, static_cast<float>(clip), b * kMuonBlock,
                        std::min((b + 1) * kMuonBlock, elements_));
    });
    for (int64_t b = 0; b < blocks_; ++b) *square += sums[b];
  }

 private:
  double block(const float* g, float* buffer, float* direction, float clip, int64_t first,
               int64_t last) const {
    const auto momentum = static_cast<float>(s_.momentum);
    const bool nesterov = s_.nesterov;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = first; i < last; ++i) {
      const float d = muon_direction(g[i] * clip, momentum, nesterov, buffer[i]);
      direction[i] = d;
      sum += static_cast<double>(d) * d;
    }
    return sum;
  }

  MuonSettings s_;
  int threads_;
  int64_t begin_, elements_, blocks_;
};

class Combine final : public Kernel {
 public:
  explicit Combine(const OpView& view) : s_(view.attributes()), threads_(omp_get_max_threads()) {
    require_floats(view, 0, "combine");
  }

  void run(const KernelArgs& args) override {
    const bool two = args.in.size() > 1 && args.in[1].defined(),
               divided = args.in.size() > 2 && args.in[2].defined();
    const double divisor = divided ? norm_of(s_, *args.in[2].as<double>()) : 1.0;
    const auto alpha = static_cast<float>(s_.alpha / divisor), beta = static_cast<float>(s_.beta / divisor);
    const float* const a = args.in[0].as<float>();
    const float* const b = two ? args.in[1].as<float>() : a;
    float* const to = args.out[0].as<float>();
    parallel_grains(threads_, args.in[0].elements(), kMuonBlock, [&](int64_t first, int64_t last, int) {
      if (two) {
#pragma omp simd
        for (int64_t i = first; i < last; ++i) to[i] = alpha * a[i] + beta * b[i];
      } else {
#pragma omp simd
        for (int64_t i = first; i < last; ++i) to[i] = alpha * a[i];
      }
    });
  }

 private:
  MuonSettings s_;
  int threads_;
};

template <typename A>
class Muon final : public Kernel {
 public:
  explicit Muon(const OpView& view)
      : s_(view.attributes()),
        threads_(omp_get_max_threads()),
        cast_(view.attributes().integer("cast") != 0),
        begin_(s_.first_row * view.out(0).shape[1]) {}

  void run(const KernelArgs& args) override {
    if (std::isnan(*args.in[1].as<double>())) return;
    const double given = *args.in[0].as<double>() * s_.rate_scale;
    const auto decay = static_cast<float>(given * s_.weight_decay),
               rate = static_cast<float>(given * s_.adjustment);
    const float* const direction = args.in[2].as<float>();
    float* const w = args.out[0].as<float>() + begin_;
    A* const param = cast_ ? args.out[1].as<A>() + begin_ : nullptr;
    parallel_grains(threads_, args.in[2].elements(), kMuonBlock, [&](int64_t first, int64_t last, int) {
      if (param)
        move<true>(direction + first, last - first, decay, rate, w + first, param + first);
      else
        move<false>(direction + first, last - first, decay, rate, w + first, nullptr);
    });
  }

 private:
  template <bool kCast>
  static void move(const float* direction, int64_t count, float decay, float rate, float* w,
                   [[maybe_unused]] A* param) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float moved = muon_moved(w[i], direction[i], decay, rate);
      w[i] = moved;
      if constexpr (kCast) store(param + i, moved);
    }
  }

  MuonSettings s_;
  int threads_;
  bool cast_;
  int64_t begin_;
};

}  // namespace

void register_muon(KernelTable& table) {
  table.add("muon_direction",
            [](const OpView& view) -> KernelPointer { return std::make_unique<MuonDirection>(view); });
  table.add("combine", [](const OpView& view) -> KernelPointer { return std::make_unique<Combine>(view); });
  table.add("muon", [](const OpView& view) {
    require_floats(view, 2, "muon");
    const bool cast = view.attributes().integer("cast") != 0;
    return with_activation_type(
        cast ? view.out(1).dtype : DType::kF32, "muon",
        [&]<typename A>() -> KernelPointer { return std::make_unique<Muon<A>>(view); });
  });
}

}  // namespace recollect::cpu
