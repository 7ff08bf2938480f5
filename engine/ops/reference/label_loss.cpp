// Losses of class targets and of numeric targets, with their gradients with respect to the logits.
#include <cmath>

#include "engine/core/ignored_label.h"
#include "engine/ops/label_loss.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

bool makes_gradient(const KernelArgs& args, const Attributes& attributes) {
  return attributes.integer("gradient") != 0 && args.state->training;
}

// Returns the class that an element of the targets names, or kIgnoredLabel.
int64_t class_of(const Tensor& targets, int64_t at, int64_t classes, int64_t columns) {
  const int32_t target = targets.as<int32_t>()[at];
  if (target != kIgnoredLabel && (target < 0 || target >= classes))
    throw no_such_class(target, at, classes, columns);
  return target;
}

template <typename T>
void cross_entropy_loss(const KernelArgs& args, const Attributes& attributes) {
  const T* logits = args.in[0].as<T>();
  const int64_t classes = attributes.integer("classes"), columns = attributes.integer("columns");
  double loss = 0;
  for (int64_t at = 0; at < args.in[1].elements(); ++at) {
    const int64_t target = class_of(args.in[1], at, classes, columns), column = at % columns;
    const int64_t first = at / columns * classes * columns + column;
    const double scale = args.in[2].as<double>()[column];
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < classes; ++j) max = std::fmax(max, logits[first + j * columns]);
    for (int64_t j = 0; j < classes; ++j) sum += std::exp(logits[first + j * columns] - max);
    if (target != kIgnoredLabel) loss += scale * (max + std::log(sum) - logits[first + target * columns]);
    if (!makes_gradient(args, attributes)) continue;
    T* dlogits = args.out[1].as<T>();
    for (int64_t j = 0; j < classes; ++j) {
      const double probability = std::exp(logits[first + j * columns] - max) / sum;
      const double gradient = scale * (probability - (j == target ? 1 : 0));
      dlogits[first + j * columns] = static_cast<T>(target == kIgnoredLabel ? 0 : gradient);
    }
  }
  store(args.out[0].as<double>()[0], loss, args.accumulate);
}

struct LossOfOne {
  double value = 0, derivative = 0;
};

LossOfOne squared(double x, double target) { return {(x - target) * (x - target), 2 * (x - target)}; }

LossOfOne sigmoid_cross_entropy(double x, double target) {
  const double small = std::exp(-std::fabs(x)), probability = (x < 0 ? small : 1.0) / (1 + small);
  return {std::fmax(x, 0.0) - x * target + std::log1p(small), probability - target};
}

template <typename T>
void elementwise(const KernelArgs& args, const Attributes& attributes) {
  const T* logits = args.in[0].as<T>();
  const float* targets = args.in[1].as<float>();
  const double scale = args.in[2].as<double>()[0];
  const auto loss_of = attributes.text("form") == "squared" ? squared : sigmoid_cross_entropy;
  double loss = 0;
  for (int64_t i = 0; i < args.in[0].elements(); ++i) {
    const LossOfOne one = std::isnan(targets[i]) ? LossOfOne{} : loss_of(logits[i], targets[i]);
    loss += one.value;
    if (makes_gradient(args, attributes)) args.out[1].as<T>()[i] = static_cast<T>(scale * one.derivative);
  }
  store(args.out[0].as<double>()[0], scale * loss, args.accumulate);
}

// Targets are f32 in every run, so the dtype of the logits selects the instance.
void elementwise_loss(const KernelArgs& args, const Attributes& attributes) {
  if (args.in[0].dtype == DType::kF64)
    elementwise<double>(args, attributes);
  else
    elementwise<float>(args, attributes);
}

}  // namespace

void register_label_loss(KernelTable& table) {
  add_kernel(table, "cross_entropy_loss", cross_entropy_loss<double>, cross_entropy_loss<float>);
  add_kernel(table, "elementwise_loss", elementwise_loss, elementwise_loss);
}

}  // namespace recollect::reference
