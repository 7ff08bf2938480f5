// Matrix products with weights stored [out, in].
#include "engine/ops/reference/activation.h"

namespace recollect::reference {
namespace {

// `tokens` rows of x. With `gelu` that of the sums, too.
template <typename T>
void multiply(const KernelArgs& args, const T* x, int64_t tokens, T* y, T* gelu = nullptr) {
  const T* w = args.in[1].as<T>();
  const T* bias = present(args.in, 2) ? args.in[2].as<T>() : nullptr;
  const int64_t outs = args.in[1].shape[0], ins = args.in[1].shape[1];
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t o = 0; o < outs; ++o) {
      double sum = bias ? double(bias[o]) : 0.0;
      for (int64_t i = 0; i < ins; ++i) sum += double(x[t * ins + i]) * w[o * ins + i];
      y[t * outs + o] = static_cast<T>(sum);
      if (gelu) gelu[t * outs + o] = static_cast<T>(tanh_gelu(sum));
    }
  }
}

template <typename T>
void linear(const KernelArgs& args, const Attributes&) {
  multiply<T>(args, args.in[0].as<T>(), args.in[0].shape[0], args.out[0].as<T>());
}

template <typename T>
void linear_gelu(const KernelArgs& args, const Attributes&) {
  multiply<T>(args, args.in[0].as<T>(), args.in[0].shape[0], args.out[1].as<T>(), args.out[0].as<T>());
}

template <typename T>
void linear_rows(const KernelArgs& args, const Attributes& attributes) {
  const int64_t rows = attributes.integer("rows"), outs = args.in[1].shape[0], ins = args.in[1].shape[1];
  for (int64_t b = 0; b < attributes.integer("blocks"); ++b) {
    const int64_t row = attributes.integer("first_row") + b * attributes.integer("stride");
    multiply<T>(args, args.in[0].as<T>() + row * ins, rows, args.out[0].as<T>() + b * rows * outs);
  }
}

// Times GELU's derivative where that is of something.
template <typename T>
void linear_backward_input(const KernelArgs& args, const Attributes&) {
  const T* dy = args.in[0].as<T>();
  const T* w = args.in[1].as<T>();
  const T* pre = present(args.in, 2) ? args.in[2].as<T>() : nullptr;
  T* dx = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], outs = args.in[1].shape[0], ins = args.in[1].shape[1];
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < ins; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < outs; ++o) sum += double(dy[t * outs + o]) * w[o * ins + i];
      if (pre) sum *= tanh_gelu_derivative(pre[t * ins + i]);
      dx[t * ins + i] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void linear_backward_weight(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  const T* dy = args.in[1].as<T>();
  T* dw = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], ins = args.in[0].shape[1], outs = args.in[1].shape[1];
  for (int64_t o = 0; o < outs; ++o) {
    for (int64_t i = 0; i < ins; ++i) {
      double sum = 0;
      for (int64_t t = 0; t < tokens; ++t) sum += double(dy[t * outs + o]) * x[t * ins + i];
      store(dw[o * ins + i], sum, args.accumulate);
    }
  }
  if (attributes.integer("bias")) sum_columns<T>(args.in[1], args.out[1], args.accumulate);
}

}  // namespace

void register_linear(KernelTable& table) {
  add_kernel(table, "linear", linear<double>, linear<float>);
  add_kernel(table, "linear_rows", linear_rows<double>, linear_rows<float>);
  add_kernel(table, "linear_gelu", linear_gelu<double>, linear_gelu<float>);
  add_kernel(table, "linear_backward_input", linear_backward_input<double>, linear_backward_input<float>);
  add_kernel(table, "linear_backward_input_gelu", linear_backward_input<double>,
             linear_backward_input<float>);
  add_kernel(table, "linear_backward_weight", linear_backward_weight<double>, linear_backward_weight<float>);
}

}  // namespace recollect::reference
