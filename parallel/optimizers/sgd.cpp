#include "parallel/optimizers/sgd.h"

namespace recollect {

namespace {

class Sgd final : public OptimizerRule {
 public:
  explicit Sgd(const OptimizerSettings& settings) : momentum_(settings.momentum) {}

  std::vector<OptimizerState> states(const Parameter&, const Value& gradient) const override {
    return {state_like("momentum_buffer", gradient)};
  }
  // The op's schedule has Adam's three places; it reads the first.
  void scalars(double learning_rate, int64_t, std::vector<double>& to) const override {
    to = {learning_rate, 0, 0};
  }
  void emit(OpBuilder& ops, const ParameterUpdate& update) const override {
    emit_update(ops, update, "sgd", {{"momentum", momentum_}});
  }

 private:
  double momentum_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_sgd(const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(settings);
}

}  // namespace recollect
