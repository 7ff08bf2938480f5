// AdamW and the other element-wise update rules, each one pass over memory. If the clip factor is NaN,
// nothing changes.
#include "engine/ops/optimizer.h"

#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/rounded_master.h"
#include "engine/runtime/cuda/element.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksTogether = 4;  // per multiprocessor: allows 64 registers a thread, without spills
constexpr int kVectors = 4;         // elements of a thread at a time: 16 bytes of f32

template <typename A>
struct Parameter {
  const float* gradient;
  float *master, *m, *v;  // v is null if the rule has one moment
  A* param;               // the parameter's copy for compute; null if none
  int64_t elements;
};

template <typename A, typename Rule, int N>
__device__ void update_elements(const StepNumbers<float>& s, const Parameter<A>& p, int64_t at) {
  const Floats<N> g = load<N>(p.gradient + at);
  Floats<N> w = load<N>(p.master + at), m = load<N>(p.m + at);
  if constexpr (Rule::kMoments > 1) {
    Floats<N> v = load<N>(p.v + at);
#pragma unroll
    for (int i = 0; i < N; ++i) Rule::update(s, g[i], w[i], m[i], v[i]);
    store<N>(p.v + at, v);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) Rule::update(s, g[i], w[i], m[i]);
  }
  store<N>(p.master + at, w);
  store<N>(p.m + at, m);
  if (p.param) store<N>(p.param + at, w);
}

template <typename A, typename Rule>
__global__ void __launch_bounds__(kThreads, kBlocksTogether)
    update(const Parameter<A> p, const double* schedule, const double* factor,
           const UpdateSettings settings) {
  const double clip = *factor;
  if (isnan(clip)) return;
  RECOLLECT_SHARED(numbers, StepNumbers<float>);
  // Computed into a local variable first: ThreadSanitizer does not see that GCC lets the call write its
  // result directly to shared memory.
  if (threadIdx.x == 0) {
    const StepNumbers<float> made = step_numbers<float>(schedule, clip, settings);
    numbers = made;
  }
  __syncthreads();
  const StepNumbers<float> s = numbers;
  const int64_t vectors = p.elements / kVectors, step = int64_t{gridDim.x} * kThreads;
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  for (int64_t i = first; i < vectors; i += step) update_elements<A, Rule, kVectors>(s, p, i * kVectors);
  const int64_t rest = vectors * kVectors + first;
  if (rest < p.elements) update_elements<A, Rule, 1>(s, p, rest);
}

// A bf16 matrix without an f32 master: the update rounds it stochastically.
struct RoundedMatrix {
  const float* gradient;
  bf16* master;
  float *m, *v;  // v is null where the rule has one moment
  int64_t elements, columns;
};

template <typename Rule>
__global__ void __launch_bounds__(kThreads, kBlocksTogether)
    update_rounded(const RoundedMatrix p, const double* schedule, const double* factor,
                   const UpdateSettings settings, const RoundedParameter rounding, const RunState* state) {
  const double clip = *factor;
  if (isnan(clip)) return;
  RECOLLECT_SHARED(numbers, StepNumbers<float>);
  if (threadIdx.x == 0) {
    const StepNumbers<float> made = step_numbers<float>(schedule, clip, settings);
    numbers = made;
  }
  __syncthreads();
  const StepNumbers<float> s = numbers;
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x, step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = first; i < p.elements; i += step) {
    float w = load_one(p.master + i), m = load_one(p.m + i);
    if constexpr (Rule::kMoments > 1) {
      float v = load_one(p.v + i);
      Rule::update(s, load_one(p.gradient + i), w, m, v);
      store_one(p.v + i, v);
    } else {
      Rule::update(s, load_one(p.gradient + i), w, m);
    }
    store_one(p.m + i, m);
    store_master(p.master + i, w, rounding, state, i / p.columns, i % p.columns);
  }
}

template <typename Rule>
class RoundedUpdate : public Kernel {
 public:
  explicit RoundedUpdate(const OpView& view) : settings_(view.attributes()), rounding_(view.attributes()) {}

  void run(const KernelArgs& args) override {
    constexpr int kMoments = Rule::kMoments;
    const RoundedMatrix p{args.in[2].as<float>(),  args.out[0].as<bf16>(),
                          args.out[1].as<float>(), kMoments > 1 ? args.out[kMoments].as<float>() : nullptr,
                          args.in[2].elements(),   args.in[2].shape[1]};
    const int64_t blocks = std::min(ceil_div(p.elements, kThreads), 32 * kMultiprocessors);
    launch(update_rounded<Rule>, grid_of(blocks), dim3(kThreads), 0, args.stream, p, args.in[0].as<double>(),
           args.in[1].as<double>(), settings_, rounding_, args.device_state);
  }

 private:
  UpdateSettings settings_;
  RoundedParameter rounding_;
};

template <typename A, typename Rule>
class Update : public Kernel {
 public:
  explicit Update(const OpView& view)
      : settings_(view.attributes()), cast_(view.attributes().integer("cast") != 0) {}

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
  UpdateSettings settings_;
  bool cast_;
};

// A is the dtype of the parameter's copy. Without a copy, A does not matter.
template <typename Rule>
void add_rule(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) {
    if (view.in(2).dtype != DType::kF32)
      throw Error(ExitCode::kConfiguration,
                  std::string("the cuda backend has ") + kind + " of f32 gradients only");
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

}  // namespace recollect::cuda
