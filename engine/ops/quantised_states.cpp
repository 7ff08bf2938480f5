// Defines the update rules with 8-bit moments. Like the other rules they change persistent values in place.
#include "engine/ops/quantised_states.h"

#include "engine/ops/define.h"
#include "engine/ops/stochastic_rounding.h"

namespace recollect::ops {

namespace {

// The outputs of each moment: the codes (indices of map entries) and the scale of every block.
std::vector<OutputSpec> infer_quantised(const OpView& v, int moments,
                                        std::initializer_list<const char*> settings) {
  for (const char* name : settings) v.attributes().real(name);  // throws if it is missing
  const Value& grad = v.in(2);
  check(grad.shape.rank() == 2, v, "the gradient is a matrix");
  std::vector<OutputSpec> specs{like(grad)};
  if (RoundedParameter::is_asked_for(v.attributes())) specs[0].dtype = v.out(0).dtype;
  for (int moment = 0; moment < moments; ++moment) {
    OutputSpec entries = like(grad), sizes = like(grad);
    entries.dtype = DType::kU8;
    sizes.dtype = DType::kF32;
    sizes.shape = {grad.shape[0], quantised_blocks(grad.shape[1])};
    specs.push_back(entries);
    specs.push_back(sizes);
  }
  if (v.attributes().integer("cast")) {
    const Value& param = v.out(static_cast<int>(specs.size()));
    check_shape(v, param, grad.shape);
    specs.push_back(like(param));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) specs[i].suffix = "state" + std::to_string(i);
  return specs;
}

}  // namespace

void register_quantised_states(OpRegistry& registry) {
  registry.add({.name = "adamw8bit",
                .infer =
                    [](const OpView& v) {
                      return infer_quantised(v, 2, {"beta1", "beta2", "epsilon", "weight_decay"});
                    },
                .cost = [](const OpView& v) { return streaming_cost(v, 40); },
                .measured_as = "adamw"});
  registry.add({.name = "lion8bit",
                .infer =
                    [](const OpView& v) {
                      return infer_quantised(v, 1, {"beta1", "beta2", "weight_decay"});
                    },
                .cost = [](const OpView& v) { return streaming_cost(v, 24); },
                .measured_as = "sgd"});
}

}  // namespace recollect::ops
