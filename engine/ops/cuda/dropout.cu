// Dropout, alone and with a bias before it and a residual after it, and the gradients: one pass over memory
// each.
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/dropout_mask.h"
#include "engine/ops/cuda/row_kernel.h"
#include "engine/ops/token_numbers.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;

__device__ int64_t thread_index() { return blockIdx.x * int64_t{kThreads} + threadIdx.x; }

// For rows of whole groups of 64 elements: a thread handles the elements of N Philox blocks, four runs of N
// that are 16 apart.
template <typename A>
__global__ void __launch_bounds__(kThreads)
    drop_groups(const A* x, A* y, int64_t groups, int64_t width, DropoutSite site, ElementNumbers numbers,
                const RunState* state) {
  constexpr int N = kVector<A>, kUnits = 16 / N;
  const int64_t unit = thread_index(), group = unit / kUnits, part = unit % kUnits;
  if (group >= groups) return;
  const DropoutMask mask(site, state);
  const int64_t at = group * 64 + part * N;
  Floats<N> values[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) values[w] = load<N>(x + at + 16 * w);
  if (mask.active()) {
    const int64_t row = group * 64 / width, column = group * 64 - row * width;
    const uint64_t block = numbers.of(*state, row, column) / 64 * 16 + part * N;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const uint32_t kept = mask.keeps_of_block(block + i);
#pragma unroll
      for (int w = 0; w < 4; ++w) values[w][i] *= mask.multiplier(kept >> w & 1);
    }
  }
#pragma unroll
  for (int w = 0; w < 4; ++w) store<N>(y + at + 16 * w, values[w]);
}

template <typename A>
__global__ void __launch_bounds__(kThreads)
    drop_elements(const A* x, A* y, int64_t count, int64_t width, DropoutSite site, ElementNumbers numbers,
                  const RunState* state) {
  const int64_t at = thread_index();
  if (at >= count) return;
  const DropoutMask mask(site, state);
  const float value = load_one(x + at);
  const int64_t row = at / width;
  const bool kept = !mask.active() || mask.keeps(numbers.of(*state, row, at - row * width));
  store_one(y + at, value * mask.multiplier(kept));
}

template <typename A>
class Dropout : public Kernel {
 public:
  explicit Dropout(const OpView& view)
      : site_(view.attributes()),
        numbers_(view.attributes(), view.in(0).shape[1]),
        count_(view.in(0).shape.elements()),
        width_(view.in(0).shape[1]) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    if (width_ % 64 == 0 && numbers_.begin_at_multiples_of(64)) {
      const int64_t units = count_ / (4 * kVector<A>);
      launch(drop_groups<A>, grid_of(ceil_div(units, kThreads)), dim3(kThreads), 0, args.stream, x, y,
             count_ / 64, width_, site_, numbers_, args.device_state);
    } else {
      launch(drop_elements<A>, grid_of(ceil_div(count_, kThreads)), dim3(kThreads), 0, args.stream, x, y,
             count_, width_, site_, numbers_, args.device_state);
    }
  }

 private:
  DropoutSite site_;
  ElementNumbers numbers_;
  int64_t count_, width_;
};

struct Drop {
  DropoutSite site;
  TokenNumbers numbers;
  const RunState* state;
  int64_t width;
};

// Tells which of a thread's elements in a row are kept.
template <typename C>
class RowMask {
 public:
  __device__ explicit RowMask(const Drop& drop)
      : mask_(drop.site, drop.state), numbers_(drop.numbers), state_(*drop.state), width_(drop.width) {}

  __device__ float multiplier(bool kept) const { return mask_.multiplier(kept); }

  // Returns bit pack * N + i for element i of the pack.
  __device__ uint32_t kept(int64_t row, int64_t unit) const {
    if (!mask_.active()) return ~0u;
    const uint64_t at = numbers_.of_row(state_, row) * width_ + C::column(unit, 0);
    uint32_t bits = 0;
    if constexpr (C::kPacks == 4) {
      const uint64_t block = at / 64 * 16 + at % 16;
#pragma unroll
      for (int i = 0; i < C::kN; ++i) {
        const uint32_t four = mask_.keeps_of_block(block + i);
#pragma unroll
        for (int w = 0; w < 4; ++w) bits |= (four >> w & 1) << (w * C::kN + i);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < C::kN; ++i) bits |= static_cast<uint32_t>(mask_.keeps(at + i)) << i;
    }
    return bits;
  }

 private:
  DropoutMask mask_;
  TokenNumbers numbers_;
  RunState state_;  // the parts in use stay in registers
  int64_t width_;
};

// Used if the model has no dropout. Code that draws random numbers needs registers, and so reduces occupancy,
// even if it is not called.
template <typename C>
struct NoMask {
  __device__ explicit NoMask(const Drop&) {}
  __device__ float multiplier(bool) const { return 1.0f; }
  __device__ uint32_t kept(int64_t, int64_t) const { return ~0u; }
};

template <typename A, typename C, template <typename> class Mask>
struct BiasDropoutAddBody {
  static constexpr int N = C::kN, kSums = 0, kRows = C::kPacks == 1 ? 2 : 1;
  using Columns = C;
  struct Constants {
    Mask<C> mask;
    Floats<N> bias[C::kPacks];
  };
  struct Operands {
    Floats<N> x[C::kPacks], residual[C::kPacks];
  };

  const A* x;
  const float* bias;
  const A* residual;
  A* y;
  Drop drop;

  __device__ Constants constants(int64_t unit) const {
    Constants result{Mask<C>(drop), {}};
#pragma unroll
    for (int p = 0; p < C::kPacks; ++p) result.bias[p] = load<N>(bias + C::column(unit, p));
    return result;
  }
  __device__ Operands read(int64_t row, int64_t unit) const {
    Operands result;
#pragma unroll
    for (int p = 0; p < C::kPacks; ++p) {
      const int64_t at = row * drop.width + C::column(unit, p);
      result.x[p] = load<N>(x + at);
      result.residual[p] = load<N>(residual + at);
    }
    return result;
  }
  __device__ void apply(int64_t row, int64_t unit, const Constants& constant, const Operands& in,
                        float (*)[C::kElements]) const {
    const uint32_t kept = constant.mask.kept(row, unit);
#pragma unroll
    for (int p = 0; p < C::kPacks; ++p) {
      Floats<N> out;
#pragma unroll
      for (int i = 0; i < N; ++i)
        out[i] = in.residual[p][i] +
                 (in.x[p][i] + constant.bias[p][i]) * constant.mask.multiplier(kept >> (p * N + i) & 1);
      store<N>(y + row * drop.width + C::column(unit, p), out);
    }
  }
};

template <typename A, typename C>
struct BiasDropoutAddBackwardBody {
  static constexpr int N = C::kN, kSums = 1, kRows = C::kPacks == 1 ? 2 : 1;
  using Columns = C;
  struct Operands {
    Floats<N> dy[C::kPacks];
  };

  const A* dy;
  A* dx;
  Drop drop;

  __device__ RowMask<C> constants(int64_t) const { return RowMask<C>(drop); }
  __device__ Operands read(int64_t row, int64_t unit) const {
    Operands result;
#pragma unroll
    for (int p = 0; p < C::kPacks; ++p) result.dy[p] = load<N>(dy + row * drop.width + C::column(unit, p));
    return result;
  }
  __device__ void apply(int64_t row, int64_t unit, const RowMask<C>& mask, const Operands& in,
                        float (*sums)[C::kElements]) const {
    const uint32_t kept = mask.kept(row, unit);
#pragma unroll
    for (int p = 0; p < C::kPacks; ++p) {
      Floats<N> out;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        out[i] = in.dy[p][i] * mask.multiplier(kept >> (p * N + i) & 1);
        sums[0][p * N + i] += out[i];
      }
      store<N>(dx + row * drop.width + C::column(unit, p), out);
    }
  }
};

template <typename A, typename C, template <typename> class Mask>
class BiasDropoutAddOf : public WalkKernel {
 public:
  explicit BiasDropoutAddOf(const OpView& view)
      : WalkKernel(view, C::kElements), site_(view.attributes()), numbers_(view.attributes()) {}
  void run(const KernelArgs& args) override {
    walk(args, BiasDropoutAddBody<A, C, Mask>{args.in[0].as<A>(),
                                              args.in[1].as<float>(),
                                              args.in[2].as<A>(),
                                              args.out[0].as<A>(),
                                              {site_, numbers_, args.device_state, walk_.width}});
  }

 private:
  DropoutSite site_;
  TokenNumbers numbers_;
};

template <typename A, typename C>
using BiasDropoutAdd = BiasDropoutAddOf<A, C, RowMask>;
template <typename A, int N>
using BiasAdd = BiasDropoutAddOf<A, OneVector<N>, NoMask>;

// Used only with dropout. Without it the gradient is dy itself, and the bias gradient is a column_sum op.
template <typename A, typename C>
class BiasDropoutAddBackward : public SumKernel {
 public:
  explicit BiasDropoutAddBackward(const OpView& view)
      : SumKernel(view, C::kElements), site_(view.attributes()), numbers_(view.attributes()) {}
  void run(const KernelArgs& args) override {
    walk_and_sum(
        args,
        BiasDropoutAddBackwardBody<A, C>{
            args.in[0].as<A>(), args.out[0].as<A>(), {site_, numbers_, args.device_state, walk_.width}},
        args.out[1]);
  }

 private:
  DropoutSite site_;
  TokenNumbers numbers_;
};

// A thread takes whole Philox blocks (WordGroup) if the op draws random words and the row width allows it.
template <template <typename, typename> class K>
KernelPointer make_dropping(const OpView& view, const char* kind) {
  const int64_t width = view.in(0).shape[1];
  return with_row_vectors(view.in(0).dtype, width, kind, [&]<typename A, int N>() -> KernelPointer {
    if constexpr (N > 1)
      if (takes_word_groups(view)) return std::make_unique<K<A, WordGroup<N>>>(view);
    return std::make_unique<K<A, OneVector<N>>>(view);
  });
}

}  // namespace

void register_dropout(KernelTable& table) {
  add_kernel<Dropout>(table, "dropout");
  table.add("bias_dropout_add", [](const OpView& view) {
    return view.attributes().real("p") > 0 ? make_dropping<BiasDropoutAdd>(view, "bias_dropout_add")
                                           : make_row_kernel<BiasAdd>(view, "bias_dropout_add");
  });
  table.add("bias_dropout_add_backward", [](const OpView& view) {
    return make_dropping<BiasDropoutAddBackward>(view, "bias_dropout_add_backward");
  });
}

}  // namespace recollect::cuda
