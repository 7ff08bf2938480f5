// Dropout of [T, h] values, alone and fused with the bias before it and the residual after it.
#include "engine/ops/reference/dropout_mask.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
void dropout(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  const DropoutMask mask(attributes, *args.state);
  const int64_t first = first_global_row(attributes, *args.state) * args.in[0].shape[1];
  for (int64_t i = 0; i < args.in[0].elements(); ++i) y[i] = static_cast<T>(mask.apply(x[i], first + i));
}

template <typename T>
void bias_dropout_add(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  const T* bias = args.in[1].as<T>();
  const T* residual = args.in[2].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t width = args.in[0].shape[1];
  const DropoutMask mask(attributes, *args.state);
  const int64_t first = first_global_row(attributes, *args.state) * width;
  for (int64_t i = 0; i < args.in[0].elements(); ++i)
    y[i] = static_cast<T>(residual[i] + mask.apply(double(x[i]) + bias[i % width], first + i));
}

template <typename T>
void bias_dropout_add_backward(const KernelArgs& args, const Attributes& attributes) {
  const T* dy = args.in[0].as<T>();
  T* dx = args.out[0].as<T>();
  T* dbias = args.out[1].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  const DropoutMask mask(attributes, *args.state);
  const int64_t first = first_global_row(attributes, *args.state) * width;
  for (int64_t c = 0; c < width; ++c) {
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t i = t * width + c;
      const double gradient = mask.apply(dy[i], first + i);
      sum += gradient;
      dx[i] = static_cast<T>(gradient);
    }
    store(dbias[c], sum, args.accumulate);
  }
}

}  // namespace

void register_dropout(KernelTable& table) {
  add_kernel(table, "dropout", dropout<double>, dropout<float>);
  add_kernel(table, "bias_dropout_add", bias_dropout_add<double>, bias_dropout_add<float>);
  add_kernel(table, "bias_dropout_add_backward", bias_dropout_add_backward<double>,
             bias_dropout_add_backward<float>);
}

}  // namespace recollect::reference
