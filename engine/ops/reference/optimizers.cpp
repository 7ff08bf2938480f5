// One optimizer step of one parameter. The outputs master, m and v are read and written whatever
// KernelArgs::accumulate says: an optimizer always continues from its state.
#include <cmath>

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

struct Schedule {
  double rate, correction1, correction2;  // correction_i = 1 - beta_i^t
};

Schedule schedule_of(const KernelArgs& args) {
  const double* schedule = args.in[0].as<double>();
  return {schedule[0], schedule[1], schedule[2]};
}

enum class Decay { kBefore, kAfter, kInGradient };

template <typename T>
void store_parameter(const KernelArgs& args, const Attributes& attributes, std::size_t output, int64_t i) {
  if (attributes.integer("cast")) args.out[output].as<T>()[i] = args.out[0].as<T>()[i];
}

// torch.optim.AdamW and Adam: epsilon is added to the corrected sqrt(v). transformers' former AdamW: to the
// uncorrected one.
template <typename T, Decay decay>
void adam_step(const KernelArgs& args, const Attributes& attributes) {
  const Schedule schedule = schedule_of(args);
  const double clip = args.in[1].as<double>()[0];
  if (std::isnan(clip)) return;
  const double beta1 = attributes.real("beta1"), beta2 = attributes.real("beta2");
  const double epsilon = attributes.real("epsilon"), weight_decay = attributes.real("weight_decay");
  for (int64_t i = 0; i < args.in[2].elements(); ++i) {
    double master = args.out[0].as<T>()[i], m = args.out[1].as<T>()[i], v = args.out[2].as<T>()[i];
    double gradient = args.in[2].as<T>()[i] * clip;
    if (decay == Decay::kInGradient) gradient += weight_decay * master;
    if (decay == Decay::kBefore) master -= schedule.rate * weight_decay * master;
    m = beta1 * m + (1 - beta1) * gradient;
    v = beta2 * v + (1 - beta2) * gradient * gradient;
    const double root = std::sqrt(schedule.correction2);
    if (decay == Decay::kAfter) {
      master -= schedule.rate * root / schedule.correction1 * m / (std::sqrt(v) + epsilon);
      master -= schedule.rate * weight_decay * master;
    } else {
      master -= schedule.rate / schedule.correction1 * m / (std::sqrt(v) / root + epsilon);
    }
    args.out[0].as<T>()[i] = static_cast<T>(master);
    args.out[1].as<T>()[i] = static_cast<T>(m);
    args.out[2].as<T>()[i] = static_cast<T>(v);
    store_parameter<T>(args, attributes, 3, i);
  }
}

template <typename T>
void sgd_step(const KernelArgs& args, const Attributes& attributes) {
  const double rate = schedule_of(args).rate, clip = args.in[1].as<double>()[0];
  if (std::isnan(clip)) return;
  const double momentum = attributes.real("momentum"), weight_decay = attributes.real("weight_decay");
  for (int64_t i = 0; i < args.in[2].elements(); ++i) {
    const double master = args.out[0].as<T>()[i];
    const double gradient = args.in[2].as<T>()[i] * clip + weight_decay * master;
    const double m = momentum * args.out[1].as<T>()[i] + gradient;
    args.out[0].as<T>()[i] = static_cast<T>(master - rate * m);
    args.out[1].as<T>()[i] = static_cast<T>(m);
    store_parameter<T>(args, attributes, 2, i);
  }
}

}  // namespace

void register_optimizers(KernelTable& table) {
  add_kernel(table, "adamw", adam_step<double, Decay::kBefore>, adam_step<float, Decay::kBefore>);
  add_kernel(table, "adamw_hf", adam_step<double, Decay::kAfter>, adam_step<float, Decay::kAfter>);
  add_kernel(table, "adam", adam_step<double, Decay::kInGradient>, adam_step<float, Decay::kInGradient>);
  add_kernel(table, "sgd", sgd_step<double>, sgd_step<float>);
}

}  // namespace recollect::reference
