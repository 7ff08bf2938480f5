// Formulas of the activations and their derivatives; activation.cpp, float8.cpp and linear.cpp use them.
#pragma once

#include <cmath>
#include <numbers>

#include "engine/ops/gelu_form.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {

// gelu(u) = u * gate(u). The erf form's gate is the normal distribution; the tanh form approximates it.
struct Gate {
  double value, derivative;
};

inline Gate tanh_gate(double u) {
  const double a = std::sqrt(2 / std::numbers::pi), b = 0.044715;
  const double t = std::tanh(a * (u + b * u * u * u));
  return {0.5 * (1 + t), 0.5 * (1 - t * t) * a * (1 + 3 * b * u * u)};
}

inline Gate erf_gate(double u) {
  const double density = std::exp(-0.5 * u * u) / std::sqrt(2 * std::numbers::pi);
  return {0.5 * std::erfc(-u / std::numbers::sqrt2), density};
}

// GELU in the tanh form and its derivative.
inline double tanh_gelu(double u) { return u * tanh_gate(u).value; }
inline double tanh_gelu_derivative(double u) {
  const Gate g = tanh_gate(u);
  return g.value + u * g.derivative;
}

using GateFunction = Gate (*)(double);

inline GateFunction gate_of(const Attributes& attributes) {
  const std::string& form = attributes.text("form");
  if (form == "tanh") return tanh_gate;
  require(form == "erf", "bias_gelu has the forms tanh and erf");
  return erf_gate;
}

template <typename T>
void bias_gelu(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  const T* bias = args.in[1].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t width = args.in[0].shape[1];
  const GateFunction gate = gate_of(attributes);
  for (int64_t i = 0; i < args.in[0].elements(); ++i) {
    const double u = double(x[i]) + bias[i % width];
    y[i] = static_cast<T>(u * gate(u).value);
  }
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The gate's activation and its derivative.
struct Through {
  double value, derivative;
};
inline Through silu(double gate) {
  const double s = sigmoid(gate);
  return {gate * s, s * (1 + gate * (1 - s))};
}
template <Gate (*gate)(double)>
Through gelu_through(double u) {
  const Gate g = gate(u);
  return {u * g.value, g.value + u * g.derivative};
}

template <typename T, Through (*of)(double)>
void gated(const KernelArgs& args, const Attributes&) {
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.out[0].shape[0], width = args.out[0].shape[1];
  for (int64_t t = 0; t < tokens; ++t) {
    const T* gate = args.in[0].as<T>() + t * 2 * width;
    for (int64_t c = 0; c < width; ++c)
      y[t * width + c] = static_cast<T>(of(gate[c]).value * gate[width + c]);
  }
}

template <typename T, Through (*of)(double)>
void gated_backward(const KernelArgs& args, const Attributes&) {
  const T* dy = args.in[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  for (int64_t t = 0; t < tokens; ++t) {
    const T* x = args.in[1].as<T>() + t * 2 * width;
    T* dx = args.out[0].as<T>() + t * 2 * width;
    for (int64_t c = 0; c < width; ++c) {
      const Through gate = of(x[c]);
      const double up = x[width + c], d = dy[t * width + c];
      dx[c] = static_cast<T>(d * up * gate.derivative);
      dx[width + c] = static_cast<T>(d * gate.value);
    }
  }
}

template <typename T>
constexpr auto swiglu = gated<T, silu>;
template <typename T>
constexpr auto swiglu_backward = gated_backward<T, silu>;
template <typename T>
void geglu(const KernelArgs& args, const Attributes& attributes) {
  is_erf_form(attributes) ? gated<T, gelu_through<erf_gate>>(args, attributes)
                          : gated<T, gelu_through<tanh_gate>>(args, attributes);
}
template <typename T>
void geglu_backward(const KernelArgs& args, const Attributes& attributes) {
  is_erf_form(attributes) ? gated_backward<T, gelu_through<erf_gate>>(args, attributes)
                          : gated_backward<T, gelu_through<tanh_gate>>(args, attributes);
}

}  // namespace recollect::reference
