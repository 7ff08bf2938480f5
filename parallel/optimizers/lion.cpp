#include "parallel/optimizers/lion.h"

namespace recollect {

namespace {

class Lion final : public OptimizerRule {
 public:
  explicit Lion(const OptimizerSettings& settings) : beta1_(settings.beta1), beta2_(settings.beta2) {}

  std::vector<OptimizerState> states(const Parameter&, const Value& gradient) const override {
    return {state_like("exp_avg", gradient)};
  }
  // The op's schedule has Adam's three places; it reads the first.
  void scalars(double learning_rate, int64_t, std::vector<double>& to) const override {
    to = {learning_rate, 0, 0};
  }
  void emit(OpBuilder& ops, const ParameterUpdate& update) const override {
    emit_update(ops, update, "lion", {{"beta1", beta1_}, {"beta2", beta2_}});
  }

 private:
  double beta1_, beta2_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_lion(const OptimizerSettings& settings) {
  return std::make_unique<Lion>(settings);
}

}  // namespace recollect
