// Adafactor's three ops. States and masters are always read and updated, whatever KernelArgs::accumulate
// says; other outputs are overwritten. If the clip factor is NaN, no state changes.
#include "engine/ops/adafactor.h"

#include <cmath>

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

struct Matrix {
  Matrix(const AdafactorSettings& s, const Tensor& gradient)
      : columns(gradient.shape.rank() == 1 ? 1 : gradient.shape[1]),
        first(s.first_row * columns),
        rows(s.rows) {}

  int64_t columns, first, rows;  // `first`: index of its first element in the parameter
  int64_t at(int64_t r, int64_t c) const { return first + r * columns + c; }
};

template <typename T>
void adafactor_sums(const KernelArgs& args, const Attributes& attributes) {
  const AdafactorSettings s(attributes);
  const Matrix matrix(s, args.in[1]);
  const double clip = args.in[0].as<double>()[0];
  const T* gradient = args.in[1].as<T>();
  const T* master = args.in[2].as<T>();
  double square = 0;
  for (int64_t i = matrix.at(0, 0); i < matrix.at(matrix.rows, 0); ++i)
    square += double(master[i]) * master[i];
  args.out[0].as<double>()[s.factored ? matrix.rows : 0] = square;
  if (!s.factored) return;
  double* of_rows = args.out[0].as<double>();
  double* of_columns = args.out[1].as<double>();
  for (int64_t r = 0; r < matrix.rows; ++r) of_rows[r] = 0;
  for (int64_t c = 0; c < matrix.columns; ++c) of_columns[c] = 0;
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.columns; ++c) {
      const double g = gradient[matrix.at(r, c)] * clip;
      of_rows[r] += g * g;
      of_columns[c] += g * g;
    }
  of_columns[matrix.columns] = square;
}

// root(r, c) is the factor of the gradient at (r, c): one over the root of its second moment.
template <typename T>
class Root {
 public:
  Root(const AdafactorSettings& s, const Matrix& matrix, const Tensor& first, const Tensor& second,
       double mean)
      : s_(s), matrix_(matrix), mean_(mean), rows_(first.as<T>()) {
    if (s.factored) columns_ = second.as<T>() + s.block * matrix.columns;
  }
  double operator()(int64_t r, int64_t c) const {
    if (!s_.factored) return own_factor<double>(rows_[matrix_.at(r, c)]);
    return row_factor<double>(s_, rows_[s_.first_row + r], mean_) * own_factor<double>(columns_[c]);
  }

 private:
  const AdafactorSettings& s_;
  const Matrix& matrix_;
  double mean_;
  const T* rows_;
  const T* columns_ = nullptr;
};

template <typename T>
double move_factors(const KernelArgs& args, const AdafactorSettings& s, const Matrix& matrix, double weight) {
  T* rows = args.out[0].as<T>() + s.first_row;
  T* columns = args.out[1].as<T>() + s.block * matrix.columns;
  double of_rows = 0, of_columns = 0;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    rows[r] = static_cast<T>(moved(rows[r], s.mean_in_row(args.in[3].as<double>()[r]), weight));
    of_rows += rows[r];
  }
  for (int64_t c = 0; c < matrix.columns; ++c) {
    columns[c] = static_cast<T>(moved(columns[c], s.mean_in_column(args.in[4].as<double>()[c]), weight));
    of_columns += columns[c];
  }
  return s.mean_of_columns ? of_columns / double(matrix.columns) : of_rows / double(matrix.rows);
}

template <typename T>
void adafactor_moments(const KernelArgs& args, const Attributes& attributes) {
  const AdafactorSettings s(attributes);
  const Matrix matrix(s, args.in[2]);
  const double weight = args.in[0].as<double>()[1], clip = args.in[1].as<double>()[0];
  if (std::isnan(clip)) return;
  const T* gradient = args.in[2].as<T>();
  double mean = 0;
  if (s.factored) {
    mean = move_factors<T>(args, s, matrix, weight);
    args.out[2].as<double>()[0] = mean;
  } else {
    T* variance = args.out[0].as<T>();
    for (int64_t i = matrix.at(0, 0); i < matrix.at(matrix.rows, 0); ++i) {
      const double g = gradient[i] * clip;
      variance[i] = static_cast<T>(moved(variance[i], g * g + (s.clamps ? 0 : s.epsilon), weight));
    }
  }
  const Root<T> root(s, matrix, args.out[0], args.out[s.factored ? 1 : 0], mean);
  const double most = most_root<double>(s);
  double square = 0;
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.columns; ++c) {
      const double update = scaled_gradient<double>(gradient[matrix.at(r, c)] * clip, root(r, c), most);
      square += update * update;
    }
  args.out[s.factored ? 3 : 1].as<double>()[0] = square;
}

template <typename T>
void adafactor(const KernelArgs& args, const Attributes& attributes) {
  const AdafactorSettings s(attributes);
  const Matrix matrix(s, args.in[2]);
  const double clip = args.in[1].as<double>()[0];
  if (std::isnan(clip)) return;
  const Tensor& squares = args.in[3];
  const AdafactorStep<double> step(s, args.in[0].as<double>(), clip,
                                   squares.as<double>()[squares.elements() - 1], args.in[4].as<double>()[0]);
  const Root<T> root(s, matrix, args.in[5], args.in[s.factored ? 6 : 5],
                     s.factored ? args.in[7].as<double>()[0] : 0.0);
  const double most = most_root<double>(s);
  const bool cast = attributes.integer("cast") != 0, has_moment = s.beta1 > 0;
  T* master = args.out[0].as<T>();
  T* param = cast ? args.out[has_moment ? 2 : 1].as<T>() : nullptr;
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.columns; ++c) {
      const int64_t i = matrix.at(r, c);
      const double update = scaled_gradient<double>(args.in[2].as<T>()[i] * clip, root(r, c), most);
      double m = has_moment ? double(args.out[1].as<T>()[i]) : 0.0;
      master[i] = static_cast<T>(has_moment ? step.with_moment(master[i], update, m)
                                            : step.without_moment(master[i], update));
      if (has_moment) args.out[1].as<T>()[i] = static_cast<T>(m);
      if (cast) param[i] = master[i];
    }
}

}  // namespace

void register_adafactor(KernelTable& table) {
  add_kernel(table, "adafactor_sums", adafactor_sums<double>, adafactor_sums<float>);
  add_kernel(table, "adafactor_moments", adafactor_moments<double>, adafactor_moments<float>);
  add_kernel(table, "adafactor", adafactor<double>, adafactor<float>);
}

}  // namespace recollect::reference
