#include "parallel/optimizers/eight_bit.h"

#include <algorithm>
#include <utility>

#include "engine/ops/quantised_states.h"
#include "parallel/optimizers/adam.h"
#include "parallel/optimizers/lion.h"

namespace recollect {

namespace {

class EightBit final : public OptimizerRule {
 public:
  explicit EightBit(const OptimizerSettings& settings)
      : kind_(settings.name),
        attributes_{{"beta1", settings.beta1}, {"beta2", settings.beta2}, {"epsilon", settings.epsilon}} {
    OptimizerSettings wide = settings;
    const bool adam = settings.name == "adamw8bit";
    wide.name = adam ? "adamw" : "lion";
    wide_ = adam ? make_adam(wide) : make_lion(wide);
  }

  std::vector<OptimizerState> states(const Parameter& p, const Value& gradient) const override {
    std::vector<OptimizerState> wide = wide_->states(p, gradient);
    if (!is_quantised(p)) return wide;
    const int64_t columns = gradient.shape[1];
    const std::string suffix = sizes_suffix(p, static_cast<int>(p.columns / columns));
    std::vector<OptimizerState> states;
    for (OptimizerState& state : wide) {
      const std::string sizes = state.name + suffix;
      state.dtype = DType::kU8;
      states.push_back(std::move(state));
      states.push_back({.name = sizes,
                        .shape = {gradient.shape[0], quantised_blocks(columns)},
                        .dtype = DType::kF32,
                        .placement = gradient.placement,
                        .of = StateOf::kBlocks});
    }
    return states;
  }
  void scalars(double learning_rate, int64_t update, std::vector<double>& to) const override {
    wide_->scalars(learning_rate, update, to);
  }
  void emit(OpBuilder& ops, const ParameterUpdate& update) const override {
    if (!is_quantised(update.parameter)) return wide_->emit(ops, update);
    emit_update(ops, update, kind_, attributes_);
  }

 private:
  std::string kind_;
  Attributes attributes_;
  std::unique_ptr<OptimizerRule> wide_;
};

}  // namespace

bool is_quantised(const Parameter& p) {
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  const auto is_large = [&](int64_t rows) { return rows * p.columns >= kLeastQuantised; };
  return !p.vector && (p.least_rows_beside == 0 || is_large(p.least_rows_beside)) &&
         std::all_of(tensors.begin(), tensors.end(),
                     [&](const Parameter::FileTensor& tensor) { return is_large(tensor.rows); });
}

std::string sizes_suffix(const Parameter& p, int tensor_size) {
  const int64_t parts = p.block_parts(tensor_size);
  return parts == 1 ? "_absmax" : "_absmax_of_" + std::to_string(parts) + "_parts";
}

std::unique_ptr<OptimizerRule> make_eight_bit(const OptimizerSettings& settings) {
  return std::make_unique<EightBit>(settings);
}

}  // namespace recollect
