// The update rules with states of one byte a number: a block of threads has a block of a row, and the maps in its shared
// memory. A factor that is not a number changes nothing.
#include "engine/ops/quantised_states.h"

#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/rounded_master.h"
#include "engine/ops/optimizer.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = static_cast<int>(kQuantisedBlock);
constexpr int kBlocksTogether = 4;  // on a multiprocessor

struct Maps {
  float entries[2][256], boundaries[2][256];  // the signed one, and the unsigned one

  // By all threads of a block, who must wait for each other before they read.
  __device__ void make() {
    const int i = static_cast<int>(threadIdx.x);
    for (int map = 0; map < 2; ++map) {
      entries[map][i] = dynamic_entry(i, map == 0);
      boundaries[map][i] = i < 255 ? dynamic_boundary(i, map == 0) : 1.0f;
    }
  }
};

// Of all of a parameter.
struct QuantisedMoment {
  uint8_t* entries;
  float* sizes;

  __device__ float read(const float* map, int64_t at, int64_t block) const {
    RECOLLECT_READS(entries + at, 1);
    return map[entries[at]] * load_one(sizes + block);
  }
  // By all threads; `moment` counts where `is_there`.
  __device__ void write(const float* boundaries, float moment, bool is_there, int64_t at,
                        int64_t block) const {
    const float largest = reduce_block<Max>(is_there ? fabsf(moment) : 0.0f, 0.0f);
    if (threadIdx.x == 0) store_one(sizes + block, largest);
    if (!is_there) return;
    RECOLLECT_WRITES(entries + at, 1);
    entries[at] = static_cast<uint8_t>(nearest_entry(boundaries, share_of(moment, largest)));
  }
};

template <typename W, typename A>
struct QuantisedParameter {
  const float* gradient;
  W* master;
  QuantisedMoment m, v;  // v is null where the rule has one moment
  A* param;              // null where there is none
  int64_t rows, columns;
};

// W is the dtype of the master, A that of the parameter's copy.
template <typename W, typename A, typename Rule>
__global__ void __launch_bounds__(kThreads, kBlocksTogether)
    update_quantised(const QuantisedParameter<W, A> p, const double* schedule, const double* factor,
                     const UpdateSettings settings, const RoundedParameter rounding, const RunState* state) {
  const double clip = *factor;
  if (isnan(clip)) return;
  RECOLLECT_SHARED(maps, Maps);
  RECOLLECT_SHARED(numbers, StepNumbers<float>);
  maps.make();
  if (threadIdx.x == 0) numbers = step_numbers<float>(schedule, clip, settings);
  __syncthreads();
  const StepNumbers<float> s = numbers;
  const int64_t blocks = ceil_div(p.columns, kThreads);
  for (int64_t block = blockIdx.x; block < p.rows * blocks; block += gridDim.x) {
    const int64_t row = block / blocks, column = block % blocks * kThreads + threadIdx.x,
                  at = row * p.columns + column;
    const bool is_there = column < p.columns;
    float m = 0, v = 0;
    if (is_there) {
      float w = load_one(p.master + at);
      m = p.m.read(maps.entries[0], at, block);
      if constexpr (Rule::kMoments > 1) {
        v = p.v.read(maps.entries[1], at, block);
        Rule::update(s, load_one(p.gradient + at), w, m, v);
      } else {
        Rule::update(s, load_one(p.gradient + at), w, m);
      }
      store_master(p.master + at, w, rounding, state, row, column);
      if (p.param) store_one(p.param + at, w);
    }
    __syncthreads();  // the block's sizes have been read
    p.m.write(maps.boundaries[0], m, is_there, at, block);
    if constexpr (Rule::kMoments > 1) p.v.write(maps.boundaries[1], v, is_there, at, block);
  }
}

template <typename W, typename A, typename Rule>
class QuantisedUpdate : public Kernel {
 public:
  explicit QuantisedUpdate(const OpView& view)
      : settings_(view.attributes()), cast_(view.attributes().integer("cast") != 0) {
    if (RoundedParameter::is_asked_for(view.attributes())) rounding_ = RoundedParameter(view.attributes());
  }

  void run(const KernelArgs& args) override {
    constexpr int kMoments = Rule::kMoments;
    const auto moment = [&](int first) {
      return QuantisedMoment{args.out[first].as<uint8_t>(), args.out[first + 1].as<float>()};
    };
    const QuantisedParameter<W, A> p{args.in[2].as<float>(),
                                     args.out[0].as<W>(),
                                     moment(1),
                                     kMoments > 1 ? moment(2 * kMoments - 1) : QuantisedMoment{},
                                     cast_ ? args.out[1 + 2 * kMoments].as<A>() : nullptr,
                                     args.in[2].shape[0],
                                     args.in[2].shape[1]};
    const int64_t blocks = std::min(p.rows * ceil_div(p.columns, kThreads), 32 * kMultiprocessors);
    launch(update_quantised<W, A, Rule>, grid_of(blocks), dim3(kThreads), 0, args.stream, p,
           args.in[0].as<double>(), args.in[1].as<double>(), settings_, rounding_, args.device_state);
  }

 private:
  UpdateSettings settings_;
  bool cast_;
  RoundedParameter rounding_;
};

template <typename Rule>
void add_quantised(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) {
    if (view.in(2).dtype != DType::kF32)
      throw Error(ExitCode::kConfiguration,
                  std::string("the cuda backend has ") + kind + " of f32 gradients only");
    if (view.out(0).dtype == DType::kBF16)
      return KernelPointer(std::make_unique<QuantisedUpdate<bf16, bf16, Rule>>(view));
    const bool cast = view.attributes().integer("cast") != 0;
    return with_activation_type(cast ? view.out(1 + 2 * Rule::kMoments).dtype : DType::kF32, kind,
                                [&]<typename A>() -> KernelPointer {
                                  return std::make_unique<QuantisedUpdate<float, A, Rule>>(view);
                                });
  });
}

}  // namespace

void register_quantised_states(KernelTable& table) {
  add_quantised<AdamwRule>(table, "adamw8bit");
  add_quantised<LionRule>(table, "lion8bit");
}

}  // namespace recollect::cuda
