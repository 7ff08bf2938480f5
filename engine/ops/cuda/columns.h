// Kernels over [rows, width] values in which each thread stays with its columns and walks from row to row.
// Data that belongs to a column, such as a bias, is read once, and column sums stay in registers. Sums are
// added in a fixed order: the rows of a thread, the threads of a block, the blocks.
#pragma once

#include "engine/ops/cuda/column_walk.h"
#include "engine/ops/cuda/kernels.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

// The columns of one thread ("unit") are kPacks runs of N neighbours.
template <int N>
struct OneVector {
  static constexpr int kN = N, kPacks = 1, kElements = N;
  static __device__ int64_t column(int64_t unit, int) { return unit * N; }
};

// The elements whose random words come from the same N Philox blocks, for rows that consist of whole groups
// of 64.
template <int N>
struct WordGroup {
  static constexpr int kN = N, kPacks = 4, kElements = 4 * N;
  static constexpr int64_t kUnits = 16 / N;  // units in a group
  static __device__ int64_t column(int64_t unit, int pack) {
    return unit / kUnits * 64 + pack * 16 + unit % kUnits * N;
  }
};

inline dim3 grid_of(const ColumnWalk& walk) { return grid_of(walk.blocks, walk.tiles); }

// A Body has: `Columns`, the columns of a thread; `kSums`, the number of sums per column; `kRows`, the number
// of rows read ahead; and the functions constants(unit), read(row, unit) and apply(row, unit, constants,
// operands, sums), which adds into sums[s][element].
template <typename Body>
__global__ void __launch_bounds__(ColumnWalk::kLanes* ColumnWalk::kRows)
    walk_columns(const Body body, int64_t rows, int64_t units, int64_t width, float* partials) {
  using Columns = typename Body::Columns;
  constexpr int kSums = Body::kSums, kAhead = Body::kRows, kElements = Columns::kElements;
  const int64_t unit = blockIdx.y * int64_t{ColumnWalk::kLanes} + threadIdx.x;
  const int64_t step = gridDim.x * int64_t{ColumnWalk::kRows};
  float sums[kSums > 0 ? kSums : 1][kElements] = {};
  if (unit < units) {
    const auto constants = body.constants(unit);
    int64_t row = blockIdx.x * int64_t{ColumnWalk::kRows} + threadIdx.y;
    for (; row + (kAhead - 1) * step < rows; row += kAhead * step) {
      typename Body::Operands operands[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) operands[i] = body.read(row + i * step, unit);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) body.apply(row + i * step, unit, constants, operands[i], sums);
    }
    for (; row < rows; row += step) body.apply(row, unit, constants, body.read(row, unit), sums);
  }
  if constexpr (kSums > 0) {
    RECOLLECT_SHARED(scratch, float[(ColumnWalk::kRows - 1) * ColumnWalk::kLanes * kElements]);
    for (int s = 0; s < kSums; ++s) {
      sum_over_rows<kElements>(sums[s], scratch);
      if (threadIdx.y > 0 || unit >= units) continue;
      float* to = partials + (s * int64_t{gridDim.x} + blockIdx.x) * width;
#pragma unroll
      for (int pack = 0; pack < Columns::kPacks; ++pack) {
        Floats<Columns::kN> x;
#pragma unroll
        for (int i = 0; i < Columns::kN; ++i) x[i] = sums[s][pack * Columns::kN + i];
        store<Columns::kN>(to + Columns::column(unit, pack), x);
      }
    }
  }
}

template <typename Body>
void run_walk(const ColumnWalk& walk, const Body& body, int64_t rows, float* partials, void* stream) {
  launch(walk_columns<Body>, grid_of(walk), dim3(ColumnWalk::kLanes, ColumnWalk::kRows), 0, stream, body,
         rows, walk.units, walk.width, partials);
}

// Like finish_sums (kernels.h) for two sums at once; the partials of the second follow those of the first.
void finish_two_sums(const float* partials, int64_t count, int64_t width, float* first, float* second,
                     bool accumulate, void* stream);

// Computes the column sums of a value.
template <typename A, int N>
struct ColumnSumBody {
  using Columns = OneVector<N>;
  using Operands = Floats<N>;
  static constexpr int kSums = 1, kRows = 4;

  const A* dy;
  int64_t width;

  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t unit) const { return load<N>(dy + row * width + unit * N); }
  __device__ void apply(int64_t, int64_t, int, const Operands& in, float (*sums)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[0][i] += in[i];
  }
};

// Runs a body without sums over the rows of the first input.
class WalkKernel : public Kernel {
 public:
  WalkKernel(const OpView& view, int elements) : WalkKernel(view, view.in(0).shape[1], elements) {}
  // For columns of another width than that of the first input.
  WalkKernel(const OpView& view, int64_t width, int elements)
      : rows_(view.in(0).shape[0]), walk_(rows_, width, elements) {}

 protected:
  template <typename Body>
  void walk(const KernelArgs& args, const Body& body) const {
    run_walk(walk_, body, rows_, nullptr, args.stream);
  }

  int64_t rows_;
  ColumnWalk walk_;
};

// Runs a body whose sums become an output.
class SumKernel : public WalkKernel {
 public:
  using WalkKernel::WalkKernel;
  std::size_t workspace_bytes() const override { return walk_.partial_bytes(1); }

 protected:
  template <typename Body>
  void walk_and_sum(const KernelArgs& args, const Body& body, const Tensor& out) const {
    float* partials = reinterpret_cast<float*>(args.workspace);
    run_walk(walk_, body, rows_, partials, args.stream);
    finish_sums(partials, walk_.blocks, walk_.width, out.as<float>(), args.accumulate, args.stream);
  }
};

}  // namespace recollect::cuda
