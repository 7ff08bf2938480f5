#include "parallel/optimizers/adam.h"

#include <cmath>

namespace recollect {

namespace {

class Adam final : public OptimizerRule {
 public:
  explicit Adam(const OptimizerSettings& settings)
      : kind_(settings.name), beta1_(settings.beta1), beta2_(settings.beta2), epsilon_(settings.epsilon) {}

  std::vector<OptimizerState> states(const Parameter&, const Value& gradient) const override {
    return {state_like("exp_avg", gradient), state_like("exp_avg_sq", gradient)};
  }

  // With the corrections for moments that began at zero.
  void scalars(double learning_rate, int64_t update, std::vector<double>& to) const override {
    const auto t = static_cast<double>(update);
    to = {learning_rate, 1.0 - std::pow(beta1_, t), 1.0 - std::pow(beta2_, t)};
  }

  void emit(OpBuilder& ops, const ParameterUpdate& update) const override {
    emit_update(ops, update, kind_, {{"beta1", beta1_}, {"beta2", beta2_}, {"epsilon", epsilon_}});
  }

 private:
  std::string kind_;
  double beta1_, beta2_, epsilon_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adam(const OptimizerSettings& settings) {
  return std::make_unique<Adam>(settings);
}

}  // namespace recollect
