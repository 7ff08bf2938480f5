// The update rules: one pass over memory each. A factor that is not a number changes nothing.
#include <cmath>

#include "engine/ops/cuda/element.h"
#include "engine/ops/cuda/kernels.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 4;  // elements of a thread at a time: 16 bytes of each f32

// What a rule is given at start-up.
struct Settings {
  double beta1, beta2, epsilon, weight_decay, momentum;
};

// The numbers of one step that all elements share, rounded to float once.
struct StepNumbers {
  float clip, rate, decay, beta2, epsilon, step_size, inverse_root, momentum;
  float rest1, rest2;  // 1 - beta1 and 1 - beta2, taken in double
};

__device__ StepNumbers step_numbers(const double* schedule, double clip, const Settings& s) {
  const double rate = schedule[0], correction1 = schedule[1], correction2 = schedule[2];
  return {.clip = static_cast<float>(clip),
          .rate = static_cast<float>(rate),
          .decay = static_cast<float>(s.weight_decay),
          .beta2 = static_cast<float>(s.beta2),
          .epsilon = static_cast<float>(s.epsilon),
          .step_size = static_cast<float>(rate / correction1),
          .inverse_root = static_cast<float>(1.0 / sqrt(correction2)),
          .momentum = static_cast<float>(s.momentum),
          .rest1 = static_cast<float>(1.0 - s.beta1),
          .rest2 = static_cast<float>(1.0 - s.beta2)};
}

// Rules change one weight and its moments, given its clipped gradient.

// torch.optim.AdamW: decay first; epsilon added to the corrected root of v.
struct AdamwRule {
  static constexpr int kMoments = 2;
  static __device__ void update(const StepNumbers& s, float g, float& w, float& m, float& v) {
    w -= s.rate * s.decay * w;
    m += s.rest1 * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    w -= s.step_size * m / (sqrtf(v) * s.inverse_root + s.epsilon);
  }
};

// torch.optim.Adam: decay is part of the gradient.
struct AdamRule {
  static constexpr int kMoments = 2;
  static __device__ void update(const StepNumbers& s, float g, float& w, float& m, float& v) {
    g += s.decay * w;
    m += s.rest1 * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    w -= s.step_size * m / (sqrtf(v) * s.inverse_root + s.epsilon);
  }
};

// transformers' former AdamW: epsilon added to the uncorrected root, and decay last.
struct AdamwHfRule {
  static constexpr int kMoments = 2;
  static __device__ void update(const StepNumbers& s, float g, float& w, float& m, float& v) {
    m += s.rest1 * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    w -= s.step_size / s.inverse_root * m / (sqrtf(v) + s.epsilon);
    w -= s.rate * s.decay * w;
  }
};

// torch.optim.SGD without dampening.
struct SgdRule {
  static constexpr int kMoments = 1;
  static __device__ void update(const StepNumbers& s, float g, float& w, float& m, float&) {
    m = s.momentum * m + (g + s.decay * w);
    w -= s.rate * m;
  }
};

template <typename A>
struct Parameter {
  const float* gradient;
  float *master, *m, *v;  // v is null where the rule has one moment
  A* param;               // null where there is none
  int64_t elements;
};

template <typename A, typename Rule, int N>
__device__ void update_elements(const StepNumbers& s, const Parameter<A>& p, int64_t at) {
  const Floats<N> g = load<N>(p.gradient + at);
  Floats<N> w = load<N>(p.master + at), m = load<N>(p.m + at), v{};
  if constexpr (Rule::kMoments > 1) v = load<N>(p.v + at);
#pragma unroll
  for (int i = 0; i < N; ++i) Rule::update(s, g[i] * s.clip, w[i], m[i], v[i]);
  store<N>(p.master + at, w);
  store<N>(p.m + at, m);
  if constexpr (Rule::kMoments > 1) store<N>(p.v + at, v);
  if (p.param) store<N>(p.param + at, w);
}

template <typename A, typename Rule>
__global__ void __launch_bounds__(kThreads)
    update(const Parameter<A> p, const double* schedule, const double* factor, const Settings settings) {
  const double clip = *factor;
  if (isnan(clip)) return;
  RECOLLECT_SHARED(numbers, StepNumbers);
  if (threadIdx.x == 0) numbers = step_numbers(schedule, clip, settings);
  __syncthreads();
  const StepNumbers s = numbers;
  const int64_t vectors = p.elements / kVectors, step = int64_t{gridDim.x} * kThreads;
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  for (int64_t i = first; i < vectors; i += step) update_elements<A, Rule, kVectors>(s, p, i * kVectors);
  const int64_t rest = vectors * kVectors + first;
  if (rest < p.elements) update_elements<A, Rule, 1>(s, p, rest);
}

template <typename A, typename Rule>
class Update : public Kernel {
 public:
  explicit Update(const OpView& view) {
    const Attributes& a = view.attributes();
    const auto real = [&](const char* name) { return a.has(name) ? a.real(name) : 0.0; };
    settings_ = {real("beta1"), real("beta2"), real("epsilon"), a.real("weight_decay"), real("momentum")};
    cast_ = a.integer("cast") != 0;
  }

  void run(const KernelArgs& args) override {
    constexpr int kMoments = Rule::kMoments;
    const Parameter<A> p{args.in[2].as<float>(),
                         args.out[0].as<float>(),
                         args.out[1].as<float>(),
                         kMoments > 1 ? args.out[kMoments].as<float>() : nullptr,
                         cast_ ? args.out[1 + kMoments].as<A>() : nullptr,
                         args.in[2].elements()};
    const int64_t blocks = std::min(ceil_div(p.elements, kThreads * kVectors), 32 * kMultiprocessors);
    launch(update<A, Rule>, grid_of(blocks), dim3(kThreads), 0, args.stream, p, args.in[0].as<double>(),
           args.in[1].as<double>(), settings_);
  }

 private:
  Settings settings_{};
  bool cast_;
};

// A is the dtype of the parameter's copy; without one it does not matter.
template <typename Rule>
KernelPointer make_update(const OpView& view, const char* kind) {
  if (view.in(2).dtype != DType::kF32)
    throw Error(ExitCode::kConfiguration,
                std::string("the cuda backend has ") + kind + " of f32 gradients only");
  const bool cast = view.attributes().integer("cast") != 0;
  return with_activation_type(
      cast ? view.out(1 + Rule::kMoments).dtype : DType::kF32, kind,
      [&]<typename A>() -> KernelPointer { return std::make_unique<Update<A, Rule>>(view); });
}

}  // namespace

KernelPointer make_adamw(const OpView& view) { return make_update<AdamwRule>(view, "adamw"); }
KernelPointer make_adamw_hf(const OpView& view) { return make_update<AdamwHfRule>(view, "adamw_hf"); }
KernelPointer make_adam(const OpView& view) { return make_update<AdamRule>(view, "adam"); }
KernelPointer make_sgd(const OpView& view) { return make_update<SgdRule>(view, "sgd"); }

}  // namespace recollect::cuda
