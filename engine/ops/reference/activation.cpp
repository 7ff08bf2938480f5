// GELU in both forms, with or without a bias; SwiGLU and GeGLU; tanh and ReLU; and their gradients.
#include "engine/ops/reference/activation.h"

namespace recollect::reference {
namespace {

template <typename T>
void bias_gelu_backward(const KernelArgs& args, const Attributes& attributes) {
  const T* dy = args.in[0].as<T>();
  const T* x = args.in[1].as<T>();
  const T* bias = args.in[2].as<T>();
  T* dx = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  const GateFunction gate = gate_of(attributes);
  for (int64_t c = 0; c < width; ++c) {
    double dbias = 0;
    for (int64_t i = c; i < tokens * width; i += width) {
      const double u = double(x[i]) + bias[c];
      const Gate g = gate(u);
      const double gradient = dy[i] * (g.value + u * g.derivative);
      dbias += gradient;
      dx[i] = static_cast<T>(gradient);
    }
    store(args.out[1].as<T>()[c], dbias, args.accumulate);
  }
}

Through gelu_of(const Attributes& attributes, double u) {
  return is_erf_form(attributes) ? gelu_through<erf_gate>(u) : gelu_through<tanh_gate>(u);
}

template <typename T>
void gelu(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  for (int64_t i = 0; i < args.in[0].elements(); ++i) y[i] = static_cast<T>(gelu_of(attributes, x[i]).value);
}

template <typename T>
void gelu_backward(const KernelArgs& args, const Attributes& attributes) {
  const T *dy = args.in[0].as<T>(), *pre = args.in[1].as<T>();
  T* dx = args.out[0].as<T>();
  for (int64_t i = 0; i < args.in[0].elements(); ++i)
    dx[i] = static_cast<T>(dy[i] * gelu_of(attributes, pre[i]).derivative);
}

template <typename T>
void hyperbolic_tangent(const KernelArgs& args, const Attributes&) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  for (int64_t i = 0; i < args.in[0].elements(); ++i) y[i] = static_cast<T>(std::tanh(double(x[i])));
}

template <typename T>
void tanh_backward(const KernelArgs& args, const Attributes&) {
  const T* dy = args.in[0].as<T>();
  const T* y = args.in[1].as<T>();
  T* dx = args.out[0].as<T>();
  for (int64_t i = 0; i < args.in[0].elements(); ++i)
    dx[i] = static_cast<T>(dy[i] * (1 - double(y[i]) * y[i]));
}

template <typename T>
void relu(const KernelArgs& args, const Attributes&) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  for (int64_t i = 0; i < args.in[0].elements(); ++i) y[i] = x[i] < 0 ? T(0) : x[i];
}

template <typename T>
void relu_backward(const KernelArgs& args, const Attributes&) {
  const T *dy = args.in[0].as<T>(), *y = args.in[1].as<T>();
  T* dx = args.out[0].as<T>();
  for (int64_t i = 0; i < args.in[0].elements(); ++i) dx[i] = y[i] > 0 ? dy[i] : T(0);
}

}  // namespace

void register_activation(KernelTable& table) {
  add_kernel(table, "bias_gelu", bias_gelu<double>, bias_gelu<float>);
  add_kernel(table, "bias_gelu_backward", bias_gelu_backward<double>, bias_gelu_backward<float>);
  add_kernel(table, "gelu", gelu<double>, gelu<float>);
  add_kernel(table, "gelu_backward", gelu_backward<double>, gelu_backward<float>);
  add_kernel(table, "swiglu", swiglu<double>, swiglu<float>);
  add_kernel(table, "swiglu_backward", swiglu_backward<double>, swiglu_backward<float>);
  add_kernel(table, "geglu", geglu<double>, geglu<float>);
  add_kernel(table, "geglu_backward", geglu_backward<double>, geglu_backward<float>);
  add_kernel(table, "tanh", hyperbolic_tangent<double>, hyperbolic_tangent<float>);
  add_kernel(table, "tanh_backward", tanh_backward<double>, tanh_backward<float>);
  add_kernel(table, "relu", relu<double>, relu<float>);
  add_kernel(table, "relu_backward", relu_backward<double>, relu_backward<float>);
}

}  // namespace recollect::reference
