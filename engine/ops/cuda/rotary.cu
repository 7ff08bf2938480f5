// Rotary position embedding: makes the table of cosines and sines, one thread per angle, and rotates the
// pairs of each head by these angles in one pass over memory, one warp per row.
#include "engine/ops/rotary.h"

#include <algorithm>
#include <numbers>
#include <string>

#include "engine/ops/cuda/row_kernel.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = 8;  // of a block

// The frequencies of all pairs, passed to the kernel by value.
struct PairFrequencies {
  static constexpr int64_t kMost = 128;

  explicit PairFrequencies(const RotaryFrequencies& from)
      : growth(from.growth()), length(from.length()), times(from.attention_factor()) {
    if (static_cast<int64_t>(from.plain().size()) > kMost)
      throw Error(ExitCode::kConfiguration,
                  "the cuda backend has no rotary_table of " + std::to_string(2 * from.plain().size()) +
                      " elements of a head",
                  "at most 256 of them turn there");
    std::copy(from.plain().begin(), from.plain().end(), plain);
    std::copy(from.longer().begin(), from.longer().end(), longer);
  }

  double plain[kMost] = {}, longer[kMost] = {};
  RotaryGrowth growth;
  int64_t length;  // used if no input gives it
  double times;
};

__global__ void __launch_bounds__(kThreads)
    fill_table(const PairFrequencies frequencies, const int32_t* __restrict__ positions,
               const int32_t* __restrict__ length, float* __restrict__ table, int64_t rows, int64_t half) {
  const int64_t at = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (at >= rows * half) return;
  const int64_t pair = at % half, position = positions ? positions[at / half] : at / half;
  const double frequency = rotary_frequency(frequencies.plain, frequencies.longer, frequencies.growth, pair,
                                            length ? *length : frequencies.length);
  // The angle is in half turns (units of pi): cos and sin of large angles would need local memory.
  const double angle = static_cast<double>(position) * (frequency / std::numbers::pi);
  float* row = table + at / half * 2 * half;
  row[pair] = static_cast<float>(frequencies.times * cospi(angle));
  row[half + pair] = static_cast<float>(frequencies.times * sinpi(angle));
}

class RotaryTable : public Kernel {
 public:
  explicit RotaryTable(const OpView& view)
      : frequencies_(RotaryFrequencies(view.attributes())),
        rows_(view.out(0).shape[0]),
        half_(view.out(0).shape[1] / 2) {
    if (view.out(0).dtype != DType::kF32)
      throw Error(ExitCode::kConfiguration, "the cuda backend has no rotary_table in f64, only in f32",
                  "use another training.precision, or device.backend: reference");
  }
  void run(const KernelArgs& args) override {
    const auto given = [&](std::size_t i) -> const int32_t* {
      return i < args.in.size() && args.in[i].defined() ? args.in[i].as<int32_t>() : nullptr;
    };
    launch(fill_table, grid_of(ceil_div(rows_ * half_, kThreads)), dim3(kThreads), 0, args.stream,
           frequencies_, given(0), given(1), args.out[0].as<float>(), rows_, half_);
  }

 private:
  PairFrequencies frequencies_;
  int64_t rows_, half_;
};

// Each row has `heads` heads of `size` elements, of which `half` pairs are rotated. Row r uses row r % length
// of the table.
struct Heads {
  int64_t length, half, size, heads;
  float direction;  // -1: rotate back (backward)
};

// x and y may be the same memory. N divides `half` and the width of a row.
template <typename A, int N>
__global__ void __launch_bounds__(kWarp* kWarps)
    turn_rows(const A* x, const float* __restrict__ table, A* y, int64_t rows, int64_t width, Heads heads) {
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.y;
  if (row >= rows) return;
  const float* cosines = table + row % heads.length * 2 * heads.half;
  const A* from = x + row * width;
  A* to = y + row * width;
  const int half = static_cast<int>(heads.half), size = static_cast<int>(heads.size);
  for (int p = threadIdx.x * N; p < heads.heads * half; p += kWarp * N) {
    const int pair = p % half, at = p / half * size + pair;
    const Floats<N> a = load<N>(from + at), b = load<N>(from + at + half);
    const Floats<N> cosine = load<N>(cosines + pair), sine = load<N>(cosines + half + pair);
    Floats<N> first, second;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = heads.direction * sine[i];
      first[i] = a[i] * cosine[i] - b[i] * s;
      second[i] = b[i] * cosine[i] + a[i] * s;
    }
    store<N>(to + at, first);
    store<N>(to + at + half, second);
  }
  if (x == y) return;
  const int rest = size - 2 * half;
  for (int p = threadIdx.x * N; p < heads.heads * rest; p += kWarp * N) {
    const int c = p / rest * size + 2 * half + p % rest;
    store<N>(to + c, load<N>(from + c));
  }
  for (int64_t c = heads.heads * size + threadIdx.x * N; c < width; c += kWarp * N)
    store<N>(to + c, load<N>(from + c));
}

template <typename A, int N>
class Rotary : public Kernel {
 public:
  explicit Rotary(const OpView& view)
      : rows_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        heads_{view.in(1).shape[0], view.in(1).shape[1] / 2, view.attributes().integer("head_size"),
               view.attributes().integer("rotated_heads"),
               view.attributes().integer("inverse") ? -1.0f : 1.0f} {}

  void run(const KernelArgs& args) override {
    launch(turn_rows<A, N>, grid_of(ceil_div(rows_, kWarps)), dim3(kWarp, kWarps), 0, args.stream,
           args.in[0].as<A>(), args.in[1].as<float>(), args.out[0].as<A>(), rows_, width_, heads_);
  }

 private:
  int64_t rows_, width_;
  Heads heads_;
};

KernelPointer make_rotary(const OpView& view) {
  require(view.in(0).shape[1] < int64_t{1} << 31, "a row's elements are numbered in 32 bits");
  return with_activation_type(view.in(0).dtype, "rotary", [&]<typename A>() -> KernelPointer {
    constexpr int N = kVector<A>;
    const bool whole = view.in(1).shape[1] / 2 % N == 0 && view.attributes().integer("head_size") % N == 0 &&
                       view.in(0).shape[1] % N == 0;
    if (whole) return std::make_unique<Rotary<A, N>>(view);
    return std::make_unique<Rotary<A, 1>>(view);
  });
}

}  // namespace

void register_rotary(KernelTable& table) {
  table.add("rotary_table", [](const OpView& view) { return std::make_unique<RotaryTable>(view); });
  table.add("rotary", make_rotary);
}

}  // namespace recollect::cuda
