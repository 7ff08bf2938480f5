// Dropout of [T, h] values, alone and fused with the bias before it and the residual after it.
#include "engine/ops/reference/dropout_mask.h"
#include "engine/ops/reference/kernels.h"
#include "engine/ops/token_numbers.h"

namespace recollect::reference {
namespace {

// Applies dropout to the elements of a [T, h] value, which are numbered row by row.
class RowDropout {
 public:
  RowDropout(const KernelArgs& args, const Attributes& attributes)
      : mask_(attributes, *args.state),
        numbers_(attributes, args.in[0].shape[1]),
        state_(*args.state),
        width_(args.in[0].shape[1]) {}
  double apply(double value, int64_t at) const {
    return mask_.apply(value, numbers_.of(state_, at / width_, at % width_));
  }

 private:
  DropoutMask mask_;
  ElementNumbers numbers_;
  const RunState& state_;
  int64_t width_;
};

template <typename T>
void dropout(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  const RowDropout dropped(args, attributes);
  for (int64_t i = 0; i < args.in[0].elements(); ++i) y[i] = static_cast<T>(dropped.apply(x[i], i));
}

template <typename T>
void bias_dropout_add(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  const T* bias = args.in[1].as<T>();
  const T* residual = args.in[2].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t width = args.in[0].shape[1];
  const RowDropout dropped(args, attributes);
  for (int64_t i = 0; i < args.in[0].elements(); ++i)
    y[i] = static_cast<T>(residual[i] + dropped.apply(double(x[i]) + bias[i % width], i));
}

template <typename T>
void bias_dropout_add_backward(const KernelArgs& args, const Attributes& attributes) {
  const T* dy = args.in[0].as<T>();
  T* dx = args.out[0].as<T>();
  T* dbias = args.out[1].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  const RowDropout dropped(args, attributes);
  for (int64_t c = 0; c < width; ++c) {
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t i = t * width + c;
      const double gradient = dropped.apply(dy[i], i);
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
