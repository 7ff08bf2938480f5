// y = x * rstd * (weight + offset), head by head; columns after the heads are copied.
#include <cmath>

#include "engine/ops/norm.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
double rstd_of_head(const T* x, int64_t size, double epsilon) {
  double squares = 0;
  for (int64_t c = 0; c < size; ++c) squares += double(x[c]) * x[c];
  return 1 / std::sqrt(squares / size + epsilon);
}

template <typename T>
void head_norm(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1], size = args.in[1].shape[0];
  const int64_t first = attributes.integer("heads"), all = first + attributes.integer("second_heads");
  const double offset = weight_offset(attributes);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t head = 0; head < all; ++head) {
      const T* weight = args.in[head < first ? 1 : 2].as<T>();
      const int64_t at = t * width + head * size;
      const double rstd = rstd_of_head(x + at, size, attributes.real("epsilon"));
      for (int64_t c = 0; c < size; ++c) y[at + c] = static_cast<T>(x[at + c] * rstd * (weight[c] + offset));
    }
    for (int64_t i = t * width + all * size; i < (t + 1) * width; ++i) y[i] = x[i];
  }
}

// For heads of one kind. With n = x * rstd and g = dy * (weight + offset): dweight is the sum of dy * n over tokens and heads.
template <typename T>
void head_weight_gradient(const KernelArgs& args, const Attributes& attributes, int64_t first, int64_t last,
                          const Tensor& out) {
  const T *dy = args.in[0].as<T>(), *x = args.in[1].as<T>();
  const int64_t tokens = args.in[1].shape[0], width = args.in[1].shape[1], size = out.shape[0];
  for (int64_t c = 0; c < size; ++c) {
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t head = first; head < last; ++head) {
        const int64_t at = t * width + head * size;
        sum += double(dy[at + c]) * x[at + c] * rstd_of_head(x + at, size, attributes.real("epsilon"));
      }
    store(out.as<T>()[c], sum, args.accumulate);
  }
}

// dx = rstd * (g - n * mean(g * n)).
template <typename T>
void head_norm_backward(const KernelArgs& args, const Attributes& attributes) {
  const T *dy = args.in[0].as<T>(), *x = args.in[1].as<T>();
  T* dx = args.out[0].as<T>();
  const int64_t tokens = args.in[1].shape[0], width = args.in[1].shape[1], size = args.in[2].shape[0];
  const int64_t first = attributes.integer("heads"), all = first + attributes.integer("second_heads");
  head_weight_gradient<T>(args, attributes, 0, first,
                          args.out[1]);  // before dx, which may overwrite dy
  const double offset = weight_offset(attributes);
  if (all > first) head_weight_gradient<T>(args, attributes, first, all, args.out[2]);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t head = 0; head < all; ++head) {
      const T* weight = args.in[head < first ? 2 : 3].as<T>();
      const int64_t at = t * width + head * size;
      const double rstd = rstd_of_head(x + at, size, attributes.real("epsilon"));
      const auto g = [&](int64_t c) { return double(dy[at + c]) * (weight[c] + offset); };
      double average = 0;
      for (int64_t c = 0; c < size; ++c) average += g(c) * x[at + c] * rstd / size;
      for (int64_t c = 0; c < size; ++c)
        dx[at + c] = static_cast<T>(rstd * (g(c) - x[at + c] * rstd * average));
    }
    for (int64_t i = t * width + all * size; i < (t + 1) * width; ++i) dx[i] = dy[i];
  }
}

}  // namespace

void register_head_norm(KernelTable& table) {
  add_kernel(table, "head_norm", head_norm<double>, head_norm<float>);
  add_kernel(table, "head_norm_backward", head_norm_backward<double>, head_norm_backward<float>);
}

}  // namespace recollect::reference
