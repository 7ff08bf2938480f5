// The arithmetic of the update rules, the same on every backend: the new value of one weight and its moments,
// given its gradient. In double it follows the formulas of the papers literally. In float, numbers that all
// elements share are computed once in double and rounded, so that an element needs only one division.
#pragma once

#include <cmath>
#include <string_view>
#include <type_traits>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"

namespace recollect {

// The settings in an op's attributes; zero for numbers that its rule does not have.
struct UpdateSettings {
  explicit UpdateSettings(const Attributes& attributes) {
    const auto real = [&](std::string_view name) {
      return attributes.has(name) ? attributes.real(name) : 0.0;
    };
    beta1 = real("beta1");
    beta2 = real("beta2");
    epsilon = real("epsilon");
    weight_decay = real("weight_decay");
    momentum = real("momentum");
    if (attributes.has("rate_scale")) rate_scale = attributes.real("rate_scale");
  }

  double beta1, beta2, epsilon, weight_decay, momentum;
  double rate_scale = 1;  // factor of this parameter's learning rate
};

// The numbers of one step. T is the type that elements are computed in.
template <typename T>
struct StepNumbers {
  static constexpr bool kExact = std::is_same_v<T, double>;

  T clip, rate, decay, momentum, beta1, beta2, epsilon;
  T rest1, rest2;           // 1 - beta1 and 1 - beta2
  T step_size;              // rate / (1 - beta1^t)
  T root;                   // the square root of 1 - beta2^t; in float its inverse
  T uncorrected_step_size;  // step_size for a quotient whose sqrt(v) is not corrected

  RECOLLECT_HOST_DEVICE void move_moments(T gradient, T& m, T& v) const {  // `gradient` has been clipped
    if constexpr (kExact)
      m = beta1 * m + rest1 * gradient;
    else
      m += rest1 * (gradient - m);
    v = beta2 * v + rest2 * gradient * gradient;
  }
  RECOLLECT_HOST_DEVICE T corrected_root(T v) const {
    if constexpr (kExact) return std::sqrt(v) / root;
    return std::sqrt(v) * root;
  }
};

// `schedule` is the input of the ops: {learning rate, 1 - beta1^t, 1 - beta2^t}.
template <typename T>
RECOLLECT_HOST_DEVICE StepNumbers<T> step_numbers(const double* schedule, double clip,
                                                  const UpdateSettings& s) {
  const double rate = schedule[0] * s.rate_scale, correction1 = schedule[1], root = std::sqrt(schedule[2]);
  StepNumbers<T> numbers{.clip = static_cast<T>(clip),
                         .rate = static_cast<T>(rate),
                         .decay = static_cast<T>(s.weight_decay),
                         .momentum = static_cast<T>(s.momentum),
                         .beta1 = static_cast<T>(s.beta1),
                         .beta2 = static_cast<T>(s.beta2),
                         .epsilon = static_cast<T>(s.epsilon),
                         .rest1 = static_cast<T>(1.0 - s.beta1),
                         .rest2 = static_cast<T>(1.0 - s.beta2),
                         .step_size = static_cast<T>(rate / correction1),
                         .root = static_cast<T>(StepNumbers<T>::kExact ? root : 1.0 / root),
                         .uncorrected_step_size = 0};
  if constexpr (StepNumbers<T>::kExact)
    numbers.uncorrected_step_size = rate * root / correction1;
  else
    numbers.uncorrected_step_size = numbers.step_size / numbers.root;
  return numbers;
}

// torch.optim.AdamW: weight decay comes first, and epsilon is added to the corrected root of v.
struct AdamwRule {
  static constexpr int kMoments = 2;
  template <typename T>
  static RECOLLECT_HOST_DEVICE void update(const StepNumbers<T>& s, T gradient, T& w, T& m, T& v) {
    w -= s.rate * s.decay * w;
    s.move_moments(gradient * s.clip, m, v);
    w -= s.step_size * m / (s.corrected_root(v) + s.epsilon);
  }
};

// torch.optim.Adam: weight decay is part of the gradient.
struct AdamRule {
  static constexpr int kMoments = 2;
  template <typename T>
  static RECOLLECT_HOST_DEVICE void update(const StepNumbers<T>& s, T gradient, T& w, T& m, T& v) {
    s.move_moments(gradient * s.clip + s.decay * w, m, v);
    w -= s.step_size * m / (s.corrected_root(v) + s.epsilon);
  }
};

// The former AdamW of transformers: epsilon is added to the uncorrected root, and weight decay comes last.
struct AdamwHfRule {
  static constexpr int kMoments = 2;
  template <typename T>
  static RECOLLECT_HOST_DEVICE void update(const StepNumbers<T>& s, T gradient, T& w, T& m, T& v) {
    s.move_moments(gradient * s.clip, m, v);
    w -= s.uncorrected_step_size * m / (std::sqrt(v) + s.epsilon);
    w -= s.rate * s.decay * w;
  }
};

// torch.optim.SGD without dampening.
struct SgdRule {
  static constexpr int kMoments = 1;
  template <typename T>
  static RECOLLECT_HOST_DEVICE void update(const StepNumbers<T>& s, T gradient, T& w, T& m) {
    m = s.momentum * m + (gradient * s.clip + s.decay * w);
    w -= s.rate * m;
  }
};

// Lion: each weight moves up or down by the rate, according to the sign of an average of moment and gradient.
struct LionRule {
  static constexpr int kMoments = 1;
  template <typename T>
  static RECOLLECT_HOST_DEVICE void update(const StepNumbers<T>& s, T gradient, T& w, T& m) {
    const T clipped = gradient * s.clip, direction = s.beta1 * m + s.rest1 * clipped;
    w -= s.rate * s.decay * w;
    w -= s.rate * static_cast<T>((direction > T{0}) - (direction < T{0}));
    m = s.beta2 * m + s.rest2 * clipped;
  }
};

}  // namespace recollect
