#include "parallel/optimizers/adafactor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/optimizers/matrices.h"

namespace recollect {

namespace {

// The ops of one parameter's update.
class Emitter {
 public:
  Emitter(OpBuilder& ops, const ParameterUpdate& update, const Attributes& rule)
      : ops_(ops), update_(update), p_(update.parameter), rule_(rule) {}

  void emit(const MatrixPart& matrix) {
    const Attributes of_matrix = attributes_of(matrix);
    const std::string name = matrix.number == 0 ? p_.name : p_.name + "/" + std::to_string(matrix.number);
    const std::vector<ValueId> sums =
        ops_.append("sums/" + name, "adafactor_sums", of_matrix, {update_.factor, p_.gradient, p_.master})
            .outputs;
    ValueId rows = sums.front(), columns = sums.back();  // the square of the parameter stands behind both
    const bool is_split = p_.split != Parameter::Split::kNone && update_.tensor_size > 1;
    const bool in_rows = p_.split == Parameter::Split::kRows;
    if (is_split && (in_rows || p_.vector)) columns = add_up("sums/columns/" + name, columns);
    if (is_split && !in_rows) rows = add_up("sums/rows/" + name, rows);
    const ValueId square = is_split && !in_rows ? rows : columns;

    std::vector<ValueId> moments =
        p_.vector ? ops_.append("moments/" + name, "adafactor_moments", of_matrix,
                                {update_.schedule, update_.factor, p_.gradient}, {state(0), kNone})
                        .outputs
                  : ops_.append("moments/" + name, "adafactor_moments", of_matrix,
                                {update_.schedule, update_.factor, p_.gradient, rows, columns},
                                {state(0), state(1), kNone, kNone})
                        .outputs;
    ValueId of_update = moments.back();
    if (is_split) of_update = add_up("moments/square/" + name, of_update);
    moments.pop_back();
    std::vector<ValueId> inputs{update_.schedule, update_.factor, p_.gradient, square, of_update};
    inputs.insert(inputs.end(), moments.begin(), moments.end());
    ops_.append("update/" + name, "adafactor", of_matrix, std::move(inputs), written());
  }

 private:
  ValueId state(std::size_t index) const { return p_.states[index].value; }

  std::vector<ValueId> written() const {
    std::vector<ValueId> outputs{p_.master};
    const std::size_t second_moments = p_.vector ? 1 : 2;
    if (p_.states.size() > second_moments) outputs.push_back(p_.states.back().value);
    if (p_.master != p_.value) outputs.push_back(p_.value);
    return outputs;
  }

  Attributes attributes_of(const MatrixPart& matrix) const {
    Attributes of = rule_;
    of.set("factored", int64_t{!p_.vector});
    of.set("block", matrix.number);
    of.set("first_row", matrix.first_row);
    of.set("rows", matrix.rows);
    of.set("whole_rows", matrix.whole_rows);
    of.set("whole_columns", p_.columns);
    of.set("weight_decay", update_.weight_decay);
    of.set("cast", int64_t{p_.master != p_.value});
    if (p_.rate_scale != 1) of.set("rate_scale", p_.rate_scale);
    const bool in_rows = p_.split == Parameter::Split::kRows && update_.tensor_size > 1;
    if (in_rows && p_.repeats > 1) of.set("repeats", int64_t{p_.repeats});
    if (in_rows || p_.padded_rows != p_.rows) of.set("mean_of_columns", int64_t{1});
    return of;
  }

  ValueId add_up(const std::string& name, ValueId value) {
    return ops_
        .append(name, "all_reduce",
                {{"axis", std::string(kTensorAxis)}, {"size", int64_t{update_.tensor_size}}}, {value})
        .outputs[0];
  }

  OpBuilder& ops_;
  const ParameterUpdate& update_;
  const Parameter& p_;
  const Attributes& rule_;
};

class Adafactor final : public OptimizerRule {
 public:
  explicit Adafactor(const OptimizerSettings& settings)
      : s_(settings), is_torchs_(settings.name == "adafactor") {}

  bool is_elementwise() const override { return false; }

  std::vector<OptimizerState> states(const Parameter& p, const Value& gradient) const override {
    std::vector<OptimizerState> states;
    if (p.vector) {
      states.push_back(state_like(is_torchs_ ? "variance" : "exp_avg_sq", gradient));
    } else {
      const auto matrices = static_cast<int64_t>(p.block_names.empty() ? 1 : p.blocks.size());
      const bool in_rows = p.split == Parameter::Split::kRows,
                 in_columns = p.split == Parameter::Split::kColumns;
      states.push_back({.name = is_torchs_ ? "row_var" : "exp_avg_sq_row",
                        .shape = {gradient.shape[0]},
                        .dtype = gradient.dtype,
                        .placement = in_rows ? gradient.placement : Placement(),
                        .of = StateOf::kRows});
      states.push_back({.name = is_torchs_ ? "col_var" : "exp_avg_sq_col",
                        .shape = {matrices, gradient.shape[1]},
                        .dtype = gradient.dtype,
                        .placement = in_columns ? gradient.placement : Placement(),
                        .of = StateOf::kColumns});
    }
    if (s_.beta1 > 0 && !is_torchs_) states.push_back(state_like("exp_avg", gradient));
    return states;
  }

  // The rate, 1 - beta2, and the most that the rate may be.
  void scalars(double learning_rate, int64_t update, std::vector<double>& to) const override {
    const auto t = static_cast<double>(update);
    const double most = is_torchs_ ? 1 / std::sqrt(t) : std::numeric_limits<double>::max();
    to = {rate(learning_rate, update), std::pow(t, s_.beta2_decay), most};
  }

  double rate(double learning_rate, int64_t update) const override {
    if (s_.relative_step == RelativeStep::kOff) return learning_rate;
    const auto t = static_cast<double>(update);
    return std::min(s_.relative_step == RelativeStep::kWarmup ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  }

  void emit(OpBuilder& ops, const ParameterUpdate& update) const override {
    const DType dtype = update.dtype;
    const double own = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                            : static_cast<double>(std::numeric_limits<float>::epsilon());
    Attributes rule{{"epsilon", is_torchs_ && s_.epsilon == 0 ? own : s_.epsilon},
                    {"scale_epsilon", s_.scale_epsilon},
                    {"clip_threshold", s_.clip_threshold},
                    {"clamps", int64_t{is_torchs_}},
                    {"scales", int64_t{is_torchs_ || s_.scale_parameter}}};
    if (s_.beta1 > 0 && !is_torchs_) rule.set("beta1", s_.beta1);
    Emitter emitter(ops, update, rule);
    for (const MatrixPart& matrix : matrices_of(update.parameter, update.tensor_size)) emitter.emit(matrix);
  }

 private:
  OptimizerSettings s_;
  bool is_torchs_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adafactor(const OptimizerSettings& settings) {
  return std::make_unique<Adafactor>(settings);
}

}  // namespace recollect
