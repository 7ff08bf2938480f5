// The arithmetic of Adafactor (Shazeer and Stern, 2018), the same on every backend, in the variants of
// Transformers and of PyTorch. An op works on one matrix: some rows of a parameter, of which this rank may
// hold a shard. Sums over the whole matrix are in double; operations on an element are done in T.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"

namespace recollect {

struct AdafactorSettings {
  explicit AdafactorSettings(const Attributes& attributes) {
    const auto real = [&](std::string_view name, double otherwise) {
      return attributes.has(name) ? attributes.real(name) : otherwise;
    };
    const auto integer = [&](std::string_view name, int64_t otherwise) {
      return attributes.has(name) ? attributes.integer(name) : otherwise;
    };
    factored = attributes.integer("factored") != 0;
    first_row = attributes.integer("first_row");
    rows = attributes.integer("rows");
    block = integer("block", 0);
    whole_rows = attributes.integer("whole_rows");
    whole_columns = attributes.integer("whole_columns");
    repeats = integer("repeats", 1);
    mean_of_columns = integer("mean_of_columns", 0) != 0;
    clamps = integer("clamps", 0) != 0;
    scales = integer("scales", 0) != 0;
    epsilon = real("epsilon", 0);
    scale_epsilon = real("scale_epsilon", 0);
    clip_threshold = real("clip_threshold", 1);
    weight_decay = real("weight_decay", 0);
    rate_scale = real("rate_scale", 1);
    beta1 = real("beta1", 0);
  }

  bool factored = false;
  int64_t first_row = 0, rows = 0, block = 0;  // the rows that this op works on
  int64_t whole_rows = 0, whole_columns = 0;   // of the matrix over all ranks
  int64_t repeats = 1;                  // number of ranks that hold the same rows and have added them up
  bool mean_of_columns = false;         // take the mean from columns, because no rank knows all rows
  bool clamps = false, scales = false;  // as in PyTorch; scale the rate by the parameter's size
  double epsilon = 0, scale_epsilon = 0, clip_threshold = 1, weight_decay = 0, rate_scale = 1, beta1 = 0;

  RECOLLECT_HOST_DEVICE double count() const {
    return static_cast<double>(whole_rows) * static_cast<double>(whole_columns) *
           static_cast<double>(repeats);
  }
  // Means of squares, from the sum of squares of a row or of a column.
  RECOLLECT_HOST_DEVICE double mean_in_row(double sum) const {
    return sum / static_cast<double>(whole_columns) + (clamps ? 0 : epsilon);
  }
  RECOLLECT_HOST_DEVICE double mean_in_column(double sum) const {
    return sum / (static_cast<double>(whole_rows) * static_cast<double>(repeats)) + (clamps ? 0 : epsilon);
  }
};

// Moves a second moment towards `to`. `weight` is the step's 1 - beta2.
RECOLLECT_HOST_DEVICE inline double moved(double state, double to, double weight) {
  return (1 - weight) * state + weight * to;
}

// The gradient is multiplied by a factor of its row and one of its column or, if second moments are not
// factored, by one of the element. The product of factors is limited to most_root().
template <typename T>
RECOLLECT_HOST_DEVICE T row_factor(const AdafactorSettings& s, double row, double mean) {
  return static_cast<T>(1 / std::sqrt(row / (s.clamps && mean < s.epsilon ? s.epsilon : mean)));
}
template <typename T>
RECOLLECT_HOST_DEVICE T own_factor(T second_moment) {  // of a column or of an element
  return T{1} / std::sqrt(second_moment);
}
template <typename T>
RECOLLECT_HOST_DEVICE T most_root(const AdafactorSettings& s) {
  constexpr double kGreatest = sizeof(T) == sizeof(float) ? 3e38 : 1e308;
  return static_cast<T>(s.clamps ? 1 / s.epsilon : kGreatest);
}
// An element without a gradient does not move, whatever its row's factor is: rows that are only padding have
// no gradient.
template <typename T>
RECOLLECT_HOST_DEVICE T scaled_gradient(T gradient, T root, T most) {
  return gradient == T{0} ? T{0} : gradient * (root < most ? root : most);
}

// The numbers of one step of one matrix. `schedule` is {learning rate, 1 - beta2, upper limit of the rate}.
template <typename T>
struct AdafactorStep {
  RECOLLECT_HOST_DEVICE AdafactorStep(const AdafactorSettings& s, const double* schedule, double factor,
                                      double parameter_square, double update_square)
      : clip(static_cast<T>(factor)), beta1(static_cast<T>(s.beta1)) {
    const double given = schedule[0] * s.rate_scale, rate = given < schedule[2] ? given : schedule[2];
    const double size = std::sqrt(parameter_square / s.count());
    const double alpha = rate * (!s.scales ? 1 : size > s.scale_epsilon ? size : s.scale_epsilon);
    const double large = std::sqrt(update_square / s.count()) / s.clip_threshold;
    size_of_step = static_cast<T>(alpha / (large > 1 ? large : 1));
    shrink = static_cast<T>(s.weight_decay * (s.clamps ? given : alpha));
  }

  T clip, beta1, size_of_step = 0, shrink = 0;

  RECOLLECT_HOST_DEVICE T without_moment(T w, T update) const {
    return w - shrink * w - size_of_step * update;
  }
  RECOLLECT_HOST_DEVICE T with_moment(T w, T update, T& m) const {
    m = beta1 * m + (T{1} - beta1) * (size_of_step * update);
    return w - shrink * w - m;
  }
};

}  // namespace recollect
