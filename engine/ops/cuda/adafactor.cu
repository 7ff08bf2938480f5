// Adafactor: sums of squares, second moments, update. Sums are made of blocks that depend only on the number
// of rows and are added in order, so they have the same bits in every run. If the clip factor is NaN, no
// state changes.
#include "engine/ops/adafactor.h"

#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = kPassThreads;

// One matrix of a parameter. It is stored by rows.
struct Matrix {
  int64_t rows, columns;
  RECOLLECT_HOST_DEVICE int64_t elements() const { return rows * columns; }
};

// Sums the squares of the clipped gradient for each column, over the rows of one part. blockIdx.y is the
// part; a thread has one column.
__global__ void __launch_bounds__(kThreads) column_squares(const float* gradient, const double* factor,
                                                           Matrix matrix, int64_t part_rows, double* parts) {
  const int64_t column = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (column >= matrix.columns) return;
  const auto clip = static_cast<float>(*factor);
  const int64_t first = blockIdx.y * part_rows;
  const int64_t last = first + part_rows < matrix.rows ? first + part_rows : matrix.rows;
  double sum = 0;
  for (int64_t row = first; row < last; ++row) {
    const float g = gradient[row * matrix.columns + column] * clip;
    sum += static_cast<double>(g) * g;
  }
  parts[blockIdx.y * matrix.columns + column] = sum;
}

// Adds the parts' sums of each column, in order.
__global__ void __launch_bounds__(kThreads)
    add_parts(const double* parts, int64_t count, int64_t columns, double* sums) {
  const int64_t column = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (column >= columns) return;
  double sum = 0;
  for (int64_t part = 0; part < count; ++part) sum += parts[part * columns + column];
  sums[column] = sum;
}

// Sums the squares of the clipped gradient for each row. A block has one row.
__global__ void __launch_bounds__(kThreads)
    row_squares(const float* gradient, const double* factor, Matrix matrix, double* sums) {
  const auto clip = static_cast<float>(*factor);
  const float* const row = gradient + blockIdx.x * matrix.columns;
  double sum = 0;
  for (int64_t c = threadIdx.x; c < matrix.columns; c += kThreads) {
    const float g = row[c] * clip;
    sum += static_cast<double>(g) * g;
  }
  sum = reduce_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Sums f(i)^2 over a grid-stride loop; each block writes its own sum.
template <typename F>
__device__ void block_sum(int64_t elements, double* sums, const F& f) {
  double sum = 0;
  const int64_t step = gridDim.x * int64_t{kThreads};
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < elements; i += step) {
    const float x = f(i);
    sum += static_cast<double>(x) * x;
  }
  sum = reduce_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) squares(const float* values, int64_t elements, double* sums) {
  block_sum(elements, sums, [&](int64_t i) { return values[i]; });
}

// A single block adds the sums of all blocks and writes the total to one or two places.
__global__ void __launch_bounds__(kThreads)
    add_up(const double* sums, int64_t count, double* first, double* second) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = reduce_block<Sum>(sum, 0.0);
  if (threadIdx.x > 0) return;
  *first = sum;
  if (second) *second = sum;
}

// The stored second moments: of rows and columns, or, unfactored, of the elements, which are in `rows`.
struct SecondMoments {
  float *rows, *columns;
};

// A single block moves the second moments of rows and columns towards the means of squares and computes their
// mean.
__global__ void __launch_bounds__(kThreads)
    move_factors(const AdafactorSettings s, const double* schedule, const double* factor,
                 const double* of_rows, const double* of_columns, Matrix matrix, SecondMoments moments,
                 double* mean) {
  if (isnan(*factor)) return;
  const double weight = schedule[1];
  double row_sum = 0, column_sum = 0;
  for (int64_t r = threadIdx.x; r < matrix.rows; r += kThreads) {
    moments.rows[r] = static_cast<float>(moved(moments.rows[r], s.mean_in_row(of_rows[r]), weight));
    row_sum += moments.rows[r];
  }
  for (int64_t c = threadIdx.x; c < matrix.columns; c += kThreads) {
    moments.columns[c] =
        static_cast<float>(moved(moments.columns[c], s.mean_in_column(of_columns[c]), weight));
    column_sum += moments.columns[c];
  }
  row_sum = reduce_block<Sum>(row_sum, 0.0);
  column_sum = reduce_block<Sum>(column_sum, 0.0);
  if (threadIdx.x == 0)
    *mean = s.mean_of_columns ? column_sum / static_cast<double>(matrix.columns)
                              : row_sum / static_cast<double>(matrix.rows);
}

// The gradient of element i times the factors of its row and its column.
__device__ float factored_update(const AdafactorSettings& s, float gradient, const Matrix& matrix,
                                 const SecondMoments& moments, double mean, int64_t i) {
  const float row = row_factor<float>(s, moments.rows[i / matrix.columns], mean);
  return scaled_gradient(gradient, row * own_factor(moments.columns[i % matrix.columns]),
                         most_root<float>(s));
}

__global__ void __launch_bounds__(kThreads)
    factored_squares(const AdafactorSettings s, const float* gradient, const double* factor, Matrix matrix,
                     SecondMoments moments, const double* mean, double* sums) {
  const auto clip = static_cast<float>(*factor);
  block_sum(matrix.elements(), sums,
            [&](int64_t i) { return factored_update(s, gradient[i] * clip, matrix, moments, *mean, i); });
}

__global__ void __launch_bounds__(kThreads)
    move_elements(const AdafactorSettings s, const double* schedule, const float* gradient,
                  const double* factor, int64_t elements, float* variance, double* sums) {
  if (isnan(*factor)) return;
  const auto clip = static_cast<float>(*factor);
  const double weight = schedule[1], least = s.clamps ? 0 : s.epsilon;
  block_sum(elements, sums, [&](int64_t i) {
    const float g = gradient[i] * clip;
    variance[i] = static_cast<float>(moved(variance[i], static_cast<double>(g) * g + least, weight));
    return scaled_gradient(g, own_factor(variance[i]), most_root<float>(s));
  });
}

template <typename A>
struct Weights {
  float *master, *moment;  // null if there is no moment
  A* param;                // null if there is no copy
};

template <typename A>
__global__ void __launch_bounds__(kThreads)
    update(const AdafactorSettings s, const double* schedule, const double* factor,
           const double* parameter_square, const double* update_square, const float* gradient, Matrix matrix,
           SecondMoments moments, const double* mean, Weights<A> weights) {
  const double clip = *factor;
  if (isnan(clip)) return;
  const AdafactorStep<float> step(s, schedule, clip, *parameter_square, *update_square);
  const int64_t stride = gridDim.x * int64_t{kThreads};
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < matrix.elements(); i += stride) {
    const float g = gradient[i] * step.clip;
    const float change = s.factored ? factored_update(s, g, matrix, moments, *mean, i)
                                    : scaled_gradient(g, own_factor(moments.rows[i]), most_root<float>(s));
    float w = weights.master[i];
    if (weights.moment)
      w = step.with_moment(w, change, weights.moment[i]);
    else
      w = step.without_moment(w, change);
    weights.master[i] = w;
    if (weights.param) store<1>(weights.param + i, Floats<1>{{w}});
  }
}

// The common part of the three ops.
class MatrixKernel : public Kernel {
 public:
  MatrixKernel(const OpView& view, int gradient, const char* kind)
      : s_(view.attributes()),
        gradient_(static_cast<std::size_t>(gradient)),
        cut_(view, gradient),
        matrix_{cut_.rows, cut_.columns},
        blocks_(cut_.blocks) {
    if (view.in(gradient).dtype != DType::kF32)
      throw Error(ExitCode::kConfiguration,
                  std::string("the cuda backend has ") + kind + " of f32 gradients only");
  }

 protected:
  int64_t begin() const { return s_.first_row * matrix_.columns; }
  const float* gradient(const KernelArgs& args) const { return args.in[gradient_].as<float>() + begin(); }
  SecondMoments moments(const Tensor& first, const Tensor& second) const {
    if (!s_.factored) return {first.as<float>() + begin(), nullptr};
    return {first.as<float>() + s_.first_row, second.as<float>() + s_.block * matrix_.columns};
  }

  AdafactorSettings s_;
  std::size_t gradient_;
  AdafactorCut cut_;
  Matrix matrix_;
  int64_t blocks_;
};

class AdafactorSums final : public MatrixKernel {
 public:
  explicit AdafactorSums(const OpView& view) : MatrixKernel(view, 1, "adafactor_sums") {}

  std::size_t workspace_bytes() const override { return cut_.sum_bytes(); }

  void run(const KernelArgs& args) override {
    double* const scratch = reinterpret_cast<double*>(args.workspace);
    double *const first = args.out[0].as<double>(), *const factor = args.in[0].as<double>();
    if (s_.factored) {
      const int64_t wide = ceil_div(matrix_.columns, kThreads);
      launch(row_squares, grid_of(matrix_.rows), dim3(kThreads), 0, args.stream, gradient(args), factor,
             matrix_, first);
      launch(column_squares, grid_of(wide, cut_.parts), dim3(kThreads), 0, args.stream, gradient(args),
             factor, matrix_, cut_.part_rows, scratch);
      launch(add_parts, grid_of(wide), dim3(kThreads), 0, args.stream, scratch, cut_.parts, matrix_.columns,
             args.out[1].as<double>());
    }
    launch(squares, grid_of(blocks_), dim3(kThreads), 0, args.stream, args.in[2].as<float>() + begin(),
           matrix_.elements(), scratch);
    launch(add_up, dim3(1), dim3(kThreads), 0, args.stream, scratch, blocks_,
           s_.factored ? first + matrix_.rows : first,
           s_.factored ? args.out[1].as<double>() + matrix_.columns : nullptr);
  }
};

class AdafactorMoments final : public MatrixKernel {
 public:
  explicit AdafactorMoments(const OpView& view) : MatrixKernel(view, 2, "adafactor_moments") {}

  std::size_t workspace_bytes() const override { return cut_.moment_bytes(); }

  void run(const KernelArgs& args) override {
    double* const sums = reinterpret_cast<double*>(args.workspace);
    const double *const schedule = args.in[0].as<double>(), *const factor = args.in[1].as<double>();
    const SecondMoments kept = moments(args.out[0], args.out[s_.factored ? 1 : 0]);
    if (s_.factored) {
      double* const mean = args.out[2].as<double>();
      launch(move_factors, dim3(1), dim3(kThreads), 0, args.stream, s_, schedule, factor,
             args.in[3].as<double>(), args.in[4].as<double>(), matrix_, kept, mean);
      launch(factored_squares, grid_of(blocks_), dim3(kThreads), 0, args.stream, s_, gradient(args), factor,
             matrix_, kept, mean, sums);
    } else {
      launch(move_elements, grid_of(blocks_), dim3(kThreads), 0, args.stream, s_, schedule, gradient(args),
             factor, matrix_.elements(), kept.rows, sums);
    }
    launch(add_up, dim3(1), dim3(kThreads), 0, args.stream, sums, blocks_,
           args.out[s_.factored ? 3 : 1].as<double>(), nullptr);
  }
};

template <typename A>
class Adafactor final : public MatrixKernel {
 public:
  explicit Adafactor(const OpView& view)
      : MatrixKernel(view, 2, "adafactor"),
        cast_(view.attributes().integer("cast") != 0),
        has_moment_(s_.beta1 > 0) {}

  void run(const KernelArgs& args) override {
    const Tensor& square = args.in[3];
    const Weights<A> weights{args.out[0].as<float>() + begin(),
                             has_moment_ ? args.out[1].as<float>() + begin() : nullptr,
                             cast_ ? args.out[has_moment_ ? 2 : 1].as<A>() + begin() : nullptr};
    launch(update<A>, grid_of(blocks_), dim3(kThreads), 0, args.stream, s_, args.in[0].as<double>(),
           args.in[1].as<double>(), square.as<double>() + square.elements() - 1, args.in[4].as<double>(),
           gradient(args), matrix_, moments(args.in[5], args.in[s_.factored ? 6 : 5]),
           s_.factored ? args.in[7].as<double>() : nullptr, weights);
  }

 private:
  bool cast_, has_moment_;
};

}  // namespace

void register_adafactor(KernelTable& table) {
  table.add("adafactor_sums",
            [](const OpView& view) -> KernelPointer { return std::make_unique<AdafactorSums>(view); });
  table.add("adafactor_moments",
            [](const OpView& view) -> KernelPointer { return std::make_unique<AdafactorMoments>(view); });
  table.add("adafactor", [](const OpView& view) {
    const bool cast = view.attributes().integer("cast") != 0;
    const int param = AdafactorSettings(view.attributes()).beta1 > 0 ? 2 : 1;
    return with_activation_type(
        cast ? view.out(param).dtype : DType::kF32, "adafactor",
        [&]<typename A>() -> KernelPointer { return std::make_unique<Adafactor<A>>(view); });
  });
}

}  // namespace recollect::cuda
