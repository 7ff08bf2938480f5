// Clipping by the global norm. Sum and factor are f64, whatever the dtype of the gradients.
#include <cmath>

#include "engine/ops/clip.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
void squared_norm(const KernelArgs& args, const Attributes&) {
  double sum = 0;
  for (const Tensor& gradient : args.in)
    for (int64_t i = 0; i < gradient.elements(); ++i)
      sum += double(gradient.as<T>()[i]) * gradient.as<T>()[i];
  args.out[0].as<double>()[0] = sum;
}

void clip_factor(const KernelArgs& args, const Attributes& attributes) {
  const auto [norm, factor] = clip(ClipInputs(args.in, attributes));
  args.out[0].as<double>()[0] = norm;
  args.out[1].as<double>()[0] = factor;
}

}  // namespace

void register_clip(KernelTable& table) {
  add_kernel(table, "squared_norm", squared_norm<double>, squared_norm<float>);
  add_kernel(table, "clip_factor", clip_factor, clip_factor);
}

}  // namespace recollect::reference
