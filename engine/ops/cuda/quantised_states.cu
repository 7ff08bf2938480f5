// The update rules with 8-bit optimizer states: each moment is stored as one byte per element, an index into
// a table of 256 values ("map"), times one f32 scale per block of a row. A warp handles one block: it decodes
// the moments, updates, and encodes again with a new scale. The maps are in shared memory. If rows are whole
// vectors, 16 bytes of numbers and 8 codes are read and written at a time. If the clip factor is NaN, nothing
// changes.
#include "engine/ops/quantised_states.h"

#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/rounded_master.h"
#include "engine/ops/optimizer.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksTogether = 3;  // per multiprocessor: allows 80 registers a thread, without spills
constexpr int kEach = static_cast<int>(kQuantisedBlock) / kWarp;  // elements of a thread

struct Maps {
  float entries[2][256], boundaries[2][256];  // the signed one, and the unsigned one

  // All threads of a block must call it, and synchronise before they read.
  __device__ void make() {
    const int i = static_cast<int>(threadIdx.x);
    for (int map = 0; map < 2; ++map) {
      entries[map][i] = dynamic_entry(i, map == 0);
      boundaries[map][i] = i < 255 ? dynamic_boundary(i, map == 0) : 1.0f;
    }
  }
};

// Where a thread's elements of a block are. kWhole (rows are whole vectors): kEach neighbours; otherwise
// kWarp apart.
template <bool kWhole>
struct Place {
  int64_t row, column, at, columns;  // of the first element; `at` counts from the parameter's start

  __device__ Place(int64_t block, int64_t blocks_of_row, int64_t width) : columns(width) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    row = block / blocks_of_row;
    column = block % blocks_of_row * kQuantisedBlock + lane * (kWhole ? kEach : 1);
    at = row * columns + column;
  }
  static __device__ int64_t offset(int i) { return kWhole ? i : i * kWarp; }
  __device__ bool has(int i) const { return column + offset(i) < columns; }
};

template <bool kWhole, typename T>
__device__ Floats<kEach> load_each(const T* from, const Place<kWhole>& place) {
  Floats<kEach> x{};
  if constexpr (kWhole) {
    if (place.has(0)) x = load<kEach>(from + place.at);
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (place.has(i)) x[i] = load_one(from + place.at + place.offset(i));
  }
  return x;
}

template <bool kWhole, typename T>
__device__ void store_each(T* to, const Floats<kEach>& x, const Place<kWhole>& place) {
  if constexpr (kWhole) {
    if (place.has(0)) store<kEach>(to + place.at, x);
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (place.has(i)) store_one(to + place.at + place.offset(i), x[i]);
  }
}

// One moment of a whole parameter: codes and one scale per block.
struct QuantisedMoment {
  uint8_t* entries;
  float* sizes;

  template <bool kWhole>
  __device__ Floats<kEach> read(const float* map, const Place<kWhole>& place, int64_t block) const {
    Floats<kEach> moment{};
    const float size = load_one(sizes + block);
    uint32_t words[kEach / 4] = {};
    if constexpr (kWhole) {
      if (place.has(0)) load_words<kEach / 4>(entries + place.at, words);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (!place.has(i)) continue;
      if constexpr (kWhole) {
        moment[i] = map[words[i / 4] >> (8 * (i % 4)) & 0xff] * size;
      } else {
        const uint8_t* entry = entries + place.at + place.offset(i);
        RECOLLECT_READS(entry, 1);
        moment[i] = map[*entry] * size;
      }
    }
    return moment;
  }

  // All threads of a warp must call it. Elements outside the row must be zero.
  template <bool kWhole>
  __device__ void write(const float* boundaries, const Floats<kEach>& moment, const Place<kWhole>& place,
                        int64_t block) const {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) largest = fmaxf(largest, fabsf(moment[i]));
    largest = reduce_warp<Max>(largest);
    __syncwarp();  // all have read the old scale
    if (threadIdx.x % kWarp == 0) store_one(sizes + block, largest);
    uint32_t words[kEach / 4] = {};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const auto entry = static_cast<uint32_t>(nearest_entry(boundaries, share_of(moment[i], largest)));
      if constexpr (kWhole) {
        words[i / 4] |= entry << (8 * (i % 4));
      } else if (place.has(i)) {
        uint8_t* to = entries + place.at + place.offset(i);
        RECOLLECT_WRITES(to, 1);
        *to = static_cast<uint8_t>(entry);
      }
    }
    if constexpr (kWhole) {
      if (place.has(0)) store_words<kEach / 4>(entries + place.at, words);
    }
  }
};

// Stores a thread's elements of the master: unchanged if f32, stochastically rounded if bf16.
template <bool kWhole, typename W>
__device__ void store_masters(W* to, const Floats<kEach>& w, const Place<kWhole>& place,
                              const RoundedParameter& rounding, const RunState* state) {
  if constexpr (std::is_same_v<W, bf16> && kWhole) {
    if (!place.has(0)) return;
    const RandomKey key = rounding.key(state->seed, state->step);
    const uint64_t first = rounding.element(place.row, place.column);
    uint32_t words[kEach / 2] = {};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const bf16 rounded = rounded_by_chance(w[i], rounding_word(key, first + i));
      words[i / 2] |= static_cast<uint32_t>(rounded.bits) << (16 * (i % 2));
    }
    store_words<kEach / 2>(to + place.at, words);
  } else if constexpr (std::is_same_v<W, bf16>) {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (place.has(i))
        store_master(to + place.at + place.offset(i), w[i], rounding, state, place.row,
                     place.column + place.offset(i));
  } else {
    store_each(to, w, place);
  }
}

template <typename W, typename A>
struct QuantisedParameter {
  const float* gradient;
  W* master;
  QuantisedMoment m, v;  // v is null if the rule has one moment
  A* param;              // null if there is no copy
  int64_t rows, columns;
};

// W is the dtype of the master, A the dtype of the parameter's copy.
template <typename W, typename A, typename Rule, bool kWhole>
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
  const int64_t of_row = quantised_blocks(p.columns), step = gridDim.x * int64_t{kThreads / kWarp};
  for (int64_t block = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / kWarp; block < p.rows * of_row;
       block += step) {
    const Place<kWhole> place(block, of_row, p.columns);
    const Floats<kEach> g = load_each(p.gradient, place);
    Floats<kEach> w = load_each(p.master, place), m = p.m.read(maps.entries[0], place, block), v{};
    if constexpr (Rule::kMoments > 1) v = p.v.read(maps.entries[1], place, block);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (!place.has(i)) continue;
      if constexpr (Rule::kMoments > 1)
        Rule::update(s, g[i], w[i], m[i], v[i]);
      else
        Rule::update(s, g[i], w[i], m[i]);
    }
    store_masters(p.master, w, place, rounding, state);
    if (p.param) store_each(p.param, w, place);
    p.m.write(maps.boundaries[0], m, place, block);
    if constexpr (Rule::kMoments > 1) p.v.write(maps.boundaries[1], v, place, block);
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
    const int64_t warps = p.rows * quantised_blocks(p.columns);
    const int64_t blocks = std::min(ceil_div(warps, kThreads / kWarp), 32 * kMultiprocessors);
    auto* kernel =
        p.columns % kEach == 0 ? update_quantised<W, A, Rule, true> : update_quantised<W, A, Rule, false>;
    launch(kernel, grid_of(blocks), dim3(kThreads), 0, args.stream, p, args.in[0].as<double>(),
           args.in[1].as<double>(), settings_, rounding_, args.device_state);
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
