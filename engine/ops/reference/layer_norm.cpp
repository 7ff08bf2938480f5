// y = (x - mean) * rstd * weight + bias, row by row. Mean and rstd are stored: backward normalises again from
// them. The root mean square's norm has neither mean nor bias.
#include <cmath>

#include "engine/ops/norm.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

// Of x [tokens, width]; `out` is y, mean and rstd.
template <typename T>
void normalize(const Tensor& x, const T* weight, const T* bias, std::span<const Tensor> out, double epsilon) {
  T* y = out[0].as<T>();
  const int64_t tokens = x.shape[0], width = x.shape[1];
  for (int64_t t = 0; t < tokens; ++t) {
    const T* row = x.as<T>() + t * width;
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += row[c];
    const double mean = sum / width;
    double squares = 0;
    for (int64_t c = 0; c < width; ++c) squares += (row[c] - mean) * (row[c] - mean);
    const double rstd = 1 / std::sqrt(squares / width + epsilon);
    for (int64_t c = 0; c < width; ++c)
      y[t * width + c] = static_cast<T>((row[c] - mean) * rstd * weight[c] + (bias ? bias[c] : T(0)));
    out[1].as<T>()[t] = static_cast<T>(mean);
    out[2].as<T>()[t] = static_cast<T>(rstd);
  }
}

template <typename T>
void layer_norm(const KernelArgs& args, const Attributes& attributes) {
  const T* bias = present(args.in, 2) ? args.in[2].as<T>() : nullptr;
  normalize(args.in[0], args.in[1].as<T>(), bias, args.out, attributes.real("epsilon"));
}

template <typename T>
void residual_norm(const KernelArgs& args, const Attributes& attributes) {
  const T *x = args.in[0].as<T>(), *bias = args.in[1].as<T>(), *residual = args.in[2].as<T>();
  const int64_t width = args.in[0].shape[1];
  for (int64_t i = 0; i < args.in[0].elements(); ++i)
    args.out[0].as<T>()[i] = static_cast<T>(residual[i] + (double(x[i]) + bias[i % width]));
  const T* shift = present(args.in, 4) ? args.in[4].as<T>() : nullptr;
  normalize(args.out[0], args.in[3].as<T>(), shift, args.out.subspan(1), attributes.real("epsilon"));
}

template <typename T>
void parameter_gradients(const KernelArgs& args) {
  const T* dy = args.in[0].as<T>();
  const T* x = args.in[1].as<T>();
  const T* mean = args.in[3].as<T>();
  const T* rstd = args.in[4].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  for (int64_t c = 0; c < width; ++c) {
    double dweight = 0, dbias = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      const double gradient = dy[t * width + c];
      dweight += gradient * (x[t * width + c] - double(mean[t])) * rstd[t];
      dbias += gradient;
    }
    store(args.out[1].as<T>()[c], dweight, args.accumulate);
    if (args.out.size() > 2) store(args.out[2].as<T>()[c], dbias, args.accumulate);
  }
}

// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - average(g) - n * average(g * n)) + add.
template <typename T>
void input_gradient(const KernelArgs& args) {
  const T* dy = args.in[0].as<T>();
  const T* x = args.in[1].as<T>();
  const T* weight = args.in[2].as<T>();
  const T* add = present(args.in, 5) ? args.in[5].as<T>() : nullptr;
  T* dx = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  for (int64_t t = 0; t < tokens; ++t) {
    const double mean = args.in[3].as<T>()[t], rstd = args.in[4].as<T>()[t];
    double average_g = 0, average_gn = 0;
    for (int64_t i = t * width; i < (t + 1) * width; ++i) {
      const double g = double(dy[i]) * weight[i - t * width];
      average_g += g / width;
      average_gn += g * (x[i] - mean) * rstd / width;
    }
    for (int64_t i = t * width; i < (t + 1) * width; ++i) {
      const double g = double(dy[i]) * weight[i - t * width];
      const double gradient = rstd * (g - average_g - (x[i] - mean) * rstd * average_gn);
      dx[i] = static_cast<T>(gradient + (add ? double(add[i]) : 0.0));
    }
  }
}

template <typename T>
void layer_norm_backward(const KernelArgs& args, const Attributes&) {
  parameter_gradients<T>(args);  // first: dx may take the place of dy or x
  input_gradient<T>(args);
}

template <typename T>
void rms_norm(const KernelArgs& args, const Attributes& attributes) {
  const double offset = weight_offset(attributes);
  const T* x = args.in[0].as<T>();
  const T* weight = args.in[1].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  for (int64_t t = 0; t < tokens; ++t) {
    const T* row = x + t * width;
    double squares = 0;
    for (int64_t c = 0; c < width; ++c) squares += double(row[c]) * row[c];
    const double rstd = 1 / std::sqrt(squares / width + attributes.real("epsilon"));
    for (int64_t c = 0; c < width; ++c)
      y[t * width + c] = static_cast<T>(row[c] * rstd * (offset + weight[c]));
    args.out[1].as<T>()[t] = static_cast<T>(rstd);
  }
}

// With n = x * rstd and g = dy * weight: dx = rstd * (g - n * average(g * n)) + add; dweight = sum of dy * n.
template <typename T>
void rms_norm_backward(const KernelArgs& args, const Attributes& attributes) {
  const double offset = weight_offset(attributes);
  const T* dy = args.in[0].as<T>();
  const T* x = args.in[1].as<T>();
  const T* weight = args.in[2].as<T>();
  const T* rstd = args.in[3].as<T>();
  const T* add = present(args.in, 4) ? args.in[4].as<T>() : nullptr;
  T* dx = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  for (int64_t c = 0; c < width; ++c) {  // first: dx may take the place of dy
    double dweight = 0;
    for (int64_t t = 0; t < tokens; ++t) dweight += double(dy[t * width + c]) * x[t * width + c] * rstd[t];
    store(args.out[1].as<T>()[c], dweight, args.accumulate);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    const T *of_y = dy + t * width, *row = x + t * width;
    double average_gn = 0;
    for (int64_t c = 0; c < width; ++c)
      average_gn += double(of_y[c]) * (offset + weight[c]) * row[c] * rstd[t] / width;
    for (int64_t c = 0; c < width; ++c) {
      const double gradient =
          rstd[t] * (double(of_y[c]) * (offset + weight[c]) - row[c] * double(rstd[t]) * average_gn);
      dx[t * width + c] = static_cast<T>(gradient + (add ? double(add[t * width + c]) : 0.0));
    }
  }
}

}  // namespace

void register_layer_norm(KernelTable& table) {
  add_kernel(table, "layer_norm", layer_norm<double>, layer_norm<float>);
  add_kernel(table, "layer_norm_backward", layer_norm_backward<double>, layer_norm_backward<float>);
  add_kernel(table, "residual_norm", residual_norm<double>, residual_norm<float>);
  add_kernel(table, "rms_norm", rms_norm<double>, rms_norm<float>);
  add_kernel(table, "rms_norm_backward", rms_norm_backward<double>, rms_norm_backward<float>);
  add_kernel(table, "layer_norm_quantise", make_with_codes<layer_norm<double>>,
             make_with_codes<layer_norm<float>>);
  add_kernel(table, "residual_norm_quantise", make_with_codes<residual_norm<double>, 1>,
             make_with_codes<residual_norm<float>, 1>);
  add_kernel(table, "rms_norm_quantise", make_with_codes<rms_norm<double>>, make_with_codes<rms_norm<float>>);
}

}  // namespace recollect::reference
