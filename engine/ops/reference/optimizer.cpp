// One optimizer step of one parameter. Master and moments are always read and updated, whatever
// KernelArgs::accumulate says, because an optimizer always continues from its state.
#include "engine/ops/optimizer.h"

#include <cmath>

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T, typename Rule>
void update(const KernelArgs& args, const Attributes& attributes) {
  constexpr int kMoments = Rule::kMoments;
  const double clip = args.in[1].as<double>()[0];
  if (std::isnan(clip)) return;
  const auto numbers = step_numbers<double>(args.in[0].as<double>(), clip, UpdateSettings(attributes));
  const bool cast = attributes.integer("cast") != 0;
  for (int64_t i = 0; i < args.in[2].elements(); ++i) {
    const double gradient = args.in[2].as<T>()[i];
    double master = args.out[0].as<T>()[i], m = args.out[1].as<T>()[i];
    if constexpr (kMoments > 1) {
      double v = args.out[2].as<T>()[i];
      Rule::update(numbers, gradient, master, m, v);
      args.out[2].as<T>()[i] = static_cast<T>(v);
    } else {
      Rule::update(numbers, gradient, master, m);
    }
    args.out[0].as<T>()[i] = static_cast<T>(master);
    args.out[1].as<T>()[i] = static_cast<T>(m);
    if (cast) args.out[1 + kMoments].as<T>()[i] = args.out[0].as<T>()[i];
  }
}

template <typename Rule>
void add_rule(KernelTable& table, const char* op) {
  add_kernel(table, op, update<double, Rule>, update<float, Rule>);
}

}  // namespace

void register_optimizer(KernelTable& table) {
  add_rule<AdamwRule>(table, "adamw");
  add_rule<AdamwHfRule>(table, "adamw_hf");
  add_rule<AdamRule>(table, "adam");
  add_rule<SgdRule>(table, "sgd");
  add_rule<LionRule>(table, "lion");
}

}  // namespace recollect::reference
