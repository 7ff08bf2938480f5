// GELU as part of the product before it. With tensor parallelism no collective stands between the two: each rank's part of the
// columns has its part of the bias.
#include "parallel/layers.h"
#include "parallel/lora.h"

namespace recollect {

bool LayerBuilder::makes_gelu_in_product(const MlpOptions& options) const {
  const bool adapted = lora_ && lora_->is_target(module_of(options.up.weight));
  return gelu_in_products_ && options.activation == "tanh" && !fp8_.on && !adapted && !continues();
}

ValueId LayerBuilder::column_linear_gelu(const std::string& name, ValueId x, int64_t out,
                                         const LinearOptions& options) {
  const ValueId w = weight(options, out, graph_.value(x).shape[1], Parameter::Split::kRows);
  const ValueId entered = enter_parallel(name + "/enter", x);
  return emit(name, "linear_gelu", {}, {entered, operand(name, w), vector_of_part(options, out)});
}

}  // namespace recollect
