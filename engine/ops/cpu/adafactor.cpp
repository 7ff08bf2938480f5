// Adafactor: three passes over memory (sums, moments, update). Rows are divided into parts by their number
// alone, and sums are added in the order of the parts, so their bits do not depend on the number of threads.
#include "engine/ops/adafactor.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kMostRowParts = 64;

// The rows of one matrix, and the parts in which they are processed. A vector counts as one column.
class FactoredMatrix : public Kernel {
 public:
  FactoredMatrix(const OpView& view, int gradient)
      : s_(view.attributes()),
        threads_(omp_get_max_threads()),
        gradient_(static_cast<std::size_t>(gradient)),
        columns_(is_vector(view, gradient) ? 1 : view.in(gradient).shape[1]),
        line_(is_vector(view, gradient) ? kVectorLine : columns_),
        lines_((s_.rows * columns_ + line_ - 1) / line_),
        part_lines_(std::max<int64_t>(1, (lines_ + kMostRowParts - 1) / kMostRowParts)),
        parts_((lines_ + part_lines_ - 1) / part_lines_) {}

 protected:
  static constexpr int64_t kVectorLine = 1024;  // elements of a vector that are processed at a time

  static bool is_vector(const OpView& view, int gradient) { return view.in(gradient).shape.rank() == 1; }

  const float* gradient(const KernelArgs& args) const {
    return args.in[gradient_].as<float>() + s_.first_row * columns_;
  }
  int64_t elements() const { return s_.rows * columns_; }

  // Calls line(l, first, count, part) for each line, whose elements are first ... first + count - 1 of the matrix.
  template <typename Line>
  void walk(Line line) const {
    parallel_ranges(threads_, parts_, [&](int64_t first, int64_t last, int) {
      for (int64_t part = first; part < last; ++part)
        for (int64_t l = part * part_lines_; l < std::min((part + 1) * part_lines_, lines_); ++l)
          line(l, l * line_, std::min(line_, elements() - l * line_), part);
    });
  }

  AdafactorSettings s_;
  int threads_;
  std::size_t gradient_;
  int64_t columns_, line_, lines_, part_lines_, parts_;
};

double sum_of(const double* values, int64_t count, int64_t stride = 1) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i * stride];
  return sum;
}

// First pass: sums of squares of the clipped gradient, by row and by column, and of the parameter's squares.
class AdafactorSums final : public FactoredMatrix {
 public:
  explicit AdafactorSums(const OpView& view) : FactoredMatrix(view, 1) {}

  // The workspace has, for each part, the sums of columns and after them the sum of the parameter's squares.
  std::size_t workspace_bytes() const override {
    return sizeof(double) * static_cast<std::size_t>(parts_ * stride());
  }

  void run(const KernelArgs& args) override {
    double* sums = reinterpret_cast<double*>(args.workspace);
    std::fill_n(sums, parts_ * stride(), 0.0);
    const float* const g = gradient(args);
    const float* const w = args.in[2].as<float>() + s_.first_row * columns_;
    const auto clip = static_cast<float>(*args.in[0].as<double>());
    double* const out = args.out[0].as<double>();
    walk([&](int64_t line, int64_t first, int64_t count, int64_t part) {
      double* const mine = sums + part * stride();
      mine[stride() - 1] += squares(w + first, count, 1);
      if (!s_.factored) return;
      out[line] = squares(g + first, count, clip);
      add_squares(g + first, count, clip, mine);
    });
    const double square = sum_of(sums + stride() - 1, parts_, stride());
    out[s_.factored ? s_.rows : 0] = square;
    if (!s_.factored) return;
    double* const of_columns = args.out[1].as<double>();
    for (int64_t c = 0; c < columns_; ++c) of_columns[c] = sum_of(sums + c, parts_, stride());
    of_columns[columns_] = square;
  }

 private:
  int64_t stride() const { return s_.factored ? columns_ + 1 : 1; }

  static double squares(const float* x, int64_t count, float factor) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const float scaled = x[i] * factor;
      sum += static_cast<double>(scaled) * scaled;
    }
    return sum;
  }
  static void add_squares(const float* x, int64_t count, float factor, double* sums) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float scaled = x[i] * factor;
      sums[i] += static_cast<double>(scaled) * scaled;
    }
  }
};

// The factors of the gradient's rows and columns.
struct Roots {
  const float* rows;     // second moments
  const float* columns;  // factors
  double mean;
};

void make_column_factors(const float* second_moments, int64_t columns, float* factors) {
#pragma omp simd
  for (int64_t c = 0; c < columns; ++c) factors[c] = own_factor(second_moments[c]);
}

// Second pass: moves the second moments towards the means of squares, and sums the squares of the scaled
// gradient.
class AdafactorMoments final : public FactoredMatrix {
 public:
  explicit AdafactorMoments(const OpView& view) : FactoredMatrix(view, 2) {}

  std::size_t workspace_bytes() const override {
    return sizeof(double) * static_cast<std::size_t>(parts_) +
           (s_.factored ? sizeof(float) * static_cast<std::size_t>(columns_) : 0);
  }

  void run(const KernelArgs& args) override {
    const double clip = *args.in[1].as<double>(), weight = args.in[0].as<double>()[1];
    if (std::isnan(clip)) return;
    double* const sums = reinterpret_cast<double*>(args.workspace);
    float* const factors = reinterpret_cast<float*>(sums + parts_);
    std::fill_n(sums, parts_, 0.0);
    Roots roots{};
    float* const variance = s_.factored ? nullptr : args.out[0].as<float>() + s_.first_row * columns_;
    if (s_.factored) roots = move_factors(args, weight, factors);
    const float* const g = gradient(args);
    const float c = static_cast<float>(clip), most = most_root<float>(s_);
    walk([&](int64_t line, int64_t first, int64_t count, int64_t part) {
      if (s_.factored)
        sums[part] += of_row(g + first, count, c, row_factor<float>(s_, roots.rows[line], roots.mean),
                             roots.columns, most);
      else
        sums[part] += of_elements(g + first, variance + first, count, c, weight, most);
    });
    args.out[s_.factored ? 3 : 1].as<double>()[0] = sum_of(sums, parts_);
  }

 private:
  Roots move_factors(const KernelArgs& args, double weight, float* factors) const {
    float* const rows = args.out[0].as<float>() + s_.first_row;
    float* const columns = args.out[1].as<float>() + s_.block * columns_;
    const double *of_rows = args.in[3].as<double>(), *of_columns = args.in[4].as<double>();
    double row_sum = 0, column_sum = 0;
    for (int64_t r = 0; r < s_.rows; ++r) {
      rows[r] = static_cast<float>(moved(rows[r], s_.mean_in_row(of_rows[r]), weight));
      row_sum += rows[r];
    }
    for (int64_t c = 0; c < columns_; ++c) {
      columns[c] = static_cast<float>(moved(columns[c], s_.mean_in_column(of_columns[c]), weight));
      column_sum += columns[c];
    }
    const double mean = s_.mean_of_columns ? column_sum / static_cast<double>(columns_)
                                           : row_sum / static_cast<double>(s_.rows);
    args.out[2].as<double>()[0] = mean;
    make_column_factors(columns, columns_, factors);
    return {rows, factors, mean};
  }

  static double of_row(const float* g, int64_t count, float clip, float row, const float* columns,
                       float most) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const float update = scaled_gradient(g[i] * clip, row * columns[i], most);
      sum += static_cast<double>(update) * update;
    }
    return sum;
  }

  double of_elements(const float* g, float* variance, int64_t count, float clip, double weight,
                     float most) const {
    const double least = s_.clamps ? 0 : s_.epsilon;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const float scaled = g[i] * clip;
      const double square = static_cast<double>(scaled) * scaled + least;
      variance[i] = static_cast<float>(moved(variance[i], square, weight));
      const float update = scaled_gradient(scaled, own_factor(variance[i]), most);
      sum += static_cast<double>(update) * update;
    }
    return sum;
  }
};

// Third pass: updates the weights with the scaled gradient, and with its running mean m if beta1 is not 0.
template <typename A>
class Adafactor final : public FactoredMatrix {
 public:
  explicit Adafactor(const OpView& view)
      : FactoredMatrix(view, 2), cast_(view.attributes().integer("cast") != 0), has_moment_(s_.beta1 > 0) {}

  std::size_t workspace_bytes() const override {
    return s_.factored ? sizeof(float) * static_cast<std::size_t>(columns_) : 0;
  }

  void run(const KernelArgs& args) override {
    const double clip = *args.in[1].as<double>();
    if (std::isnan(clip)) return;
    const Tensor& squares = args.in[3];
    const AdafactorStep<float> step(s_, args.in[0].as<double>(), clip,
                                    squares.as<double>()[squares.elements() - 1], args.in[4].as<double>()[0]);
    float* const factors = reinterpret_cast<float*>(args.workspace);
    if (s_.factored) make_column_factors(args.in[6].as<float>() + s_.block * columns_, columns_, factors);
    const int64_t begin = s_.first_row * columns_;
    const float* const seconds = args.in[5].as<float>() + (s_.factored ? s_.first_row : begin);
    const double mean = s_.factored ? args.in[7].as<double>()[0] : 0;
    const float* const g = gradient(args);
    float* const w = args.out[0].as<float>() + begin;
    float* const m = has_moment_ ? args.out[1].as<float>() + begin : nullptr;
    A* const param = cast_ ? args.out[has_moment_ ? 2 : 1].as<A>() + begin : nullptr;
    walk([&](int64_t line, int64_t first, int64_t count, int64_t) {
      const float row = s_.factored ? row_factor<float>(s_, seconds[line], mean) : 0.0f;
      const Line all{g + first, s_.factored ? factors : seconds + first, w + first, m ? m + first : nullptr,
                     count};
      s_.factored ? update<true>(step, all, row) : update<false>(step, all, row);
      if (param)
        for (int64_t i = first; i < first + count; ++i) store(param + i, w[i]);
    });
  }

 private:
  struct Line {
    const float *g, *seconds;  // factors of the columns, or second moments of the elements
    float *w, *m;
    int64_t count;
  };

  template <bool kFactored>
  void update(const AdafactorStep<float> step, const Line line, float row) const {
    const float most = most_root<float>(s_);
    const float *const g = line.g, *const seconds = line.seconds;
    float *const w = line.w, *const m = line.m;
    const auto update_of = [&](int64_t i) {
      const float root = kFactored ? row * seconds[i] : own_factor(seconds[i]);
      return scaled_gradient(g[i] * step.clip, root, most);
    };
    if (m) {
#pragma omp simd
      for (int64_t i = 0; i < line.count; ++i) w[i] = step.with_moment(w[i], update_of(i), m[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < line.count; ++i) w[i] = step.without_moment(w[i], update_of(i));
    }
  }

  bool cast_, has_moment_;
};

void require_float(const OpView& view, int gradient, const char* kind) {
  if (view.in(gradient).dtype != DType::kF32) with_activation_type(DType::kF64, kind, []<typename A>() {});
}

}  // namespace

void register_adafactor(KernelTable& table) {
  table.add("adafactor_sums", [](const OpView& view) -> KernelPointer {
    require_float(view, 1, "adafactor_sums");
    return std::make_unique<AdafactorSums>(view);
  });
  table.add("adafactor_moments", [](const OpView& view) -> KernelPointer {
    require_float(view, 2, "adafactor_moments");
    return std::make_unique<AdafactorMoments>(view);
  });
  table.add("adafactor", [](const OpView& view) {
    require_float(view, 2, "adafactor");
    const bool cast = view.attributes().integer("cast") != 0;
    const int param = AdafactorSettings(view.attributes()).beta1 > 0 ? 2 : 1;
    return with_activation_type(
        cast ? view.out(param).dtype : DType::kF32, "adafactor",
        [&]<typename A>() -> KernelPointer { return std::make_unique<Adafactor<A>>(view); });
  });
}

}  // namespace recollect::cpu
