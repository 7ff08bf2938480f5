#include "parallel/optimizers/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "parallel/optimizers/adam.h"
#include "parallel/optimizers/matrices.h"

namespace recollect {

namespace {

// Of the iteration x -> a x + (b g + c g g) x, g = x x^T.
constexpr double kCubicA = 3.4445, kCubicB = -4.7750, kCubicC = 2.0315;
constexpr double kLeastNorm = 1e-7;

// The ops of one matrix's update.
class Orthogonalizer {
 public:
  Orthogonalizer(OpBuilder& ops, const ParameterUpdate& update, const MatrixPart& matrix)
      : ops_(ops),
        p_(update.parameter),
        size_(update.tensor_size),
        is_split_(p_.split != Parameter::Split::kNone && size_ > 1),
        repeats_(is_split_ && p_.split == Parameter::Split::kRows ? p_.repeats : 1),
        of_rows_(is_split_ ? p_.split == Parameter::Split::kColumns : matrix.rows <= p_.local_columns(size_)),
        name_(matrix.number == 0 ? p_.name : p_.name + "/" + std::to_string(matrix.number)) {}

  const std::string& name() const { return name_; }

  // Of a direction, and of the sum of its squares.
  ValueId run(ValueId x, ValueId square, int64_t steps) {
    if (is_split_) square = add_up("square", square);
    x = append(
        "scaled", "combine",
        {{"alpha", 1.0}, {"epsilon", kLeastNorm}, {"square_scale", 1.0 / static_cast<double>(repeats_)}},
        {x, kNone, square});
    for (int64_t step = 0; step < steps; ++step) x = iterate(x, std::to_string(step));
    return x;
  }

 private:
  ValueId iterate(ValueId x, const std::string& step) {
    ValueId gram = of_rows_ ? append("gram" + step, "linear", {}, {x, x})
                            : append("gram" + step, "linear_backward_weight", {{"bias", int64_t{0}}}, {x, x});
    if (is_split_) gram = add_up("gram" + step + "/sum", gram);
    if (repeats_ > 1)  // each row was added up so often
      gram = append("gram" + step + "/mean", "combine", {{"alpha", 1.0 / static_cast<double>(repeats_)}},
                    {gram});
    const ValueId squared = append("gram" + step + "/squared", "linear", {}, {gram, gram});
    const ValueId factor =
        append("factor" + step, "combine", {{"alpha", kCubicB}, {"beta", kCubicC}}, {gram, squared});
    const ValueId changed = of_rows_ ? append("product" + step, "linear_backward_input", {}, {factor, x})
                                     : append("product" + step, "linear", {}, {x, factor});
    return append("step" + step, "combine", {{"alpha", kCubicA}, {"beta", 1.0}}, {x, changed});
  }

  ValueId append(const std::string& what, const char* kind, Attributes attributes,
                 std::vector<ValueId> inputs) {
    return ops_.append("muon/" + what + "/" + name_, kind, std::move(attributes), std::move(inputs))
        .outputs[0];
  }
  ValueId add_up(const std::string& what, ValueId value) {
    return append(what + "/ranks", "all_reduce",
                  {{"axis", std::string(kTensorAxis)}, {"size", int64_t{size_}}}, {value});
  }

  OpBuilder& ops_;
  const Parameter& p_;
  const int size_;
  const bool is_split_;
  const int repeats_;
  const bool of_rows_;  // the iteration multiplies rows with each other, else columns
  const std::string name_;
};

class Muon final : public OptimizerRule {
 public:
  explicit Muon(const OptimizerSettings& settings) : s_(settings) {
    OptimizerSettings adamw = settings;
    adamw.name = "adamw";
    rest_ = make_adam(adamw);
  }

  bool is_elementwise() const override { return false; }

  std::vector<OptimizerState> states(const Parameter& p, const Value& gradient) const override {
    if (p.vector || gradient.layer < 0) return rest_->states(p, gradient);
    return {state_like("momentum_buffer", gradient)};
  }
  void scalars(double learning_rate, int64_t update, std::vector<double>& to) const override {
    rest_->scalars(learning_rate, update, to);
  }
  void emit(OpBuilder& ops, const ParameterUpdate& update) const override {
    if (update.parameter.states.size() > 1) return rest_->emit(ops, update);
    for (const MatrixPart& matrix : matrices_of(update.parameter, update.tensor_size))
      emit_matrix(ops, update, matrix);
  }

 private:
  void emit_matrix(OpBuilder& ops, const ParameterUpdate& update, const MatrixPart& matrix) const {
    const Parameter& p = update.parameter;
    Orthogonalizer orthogonalizer(ops, update, matrix);
    const Accumulate before = std::exchange(ops.common().accumulate, Accumulate::kNever);
    Attributes rows{{"first_row", matrix.first_row}, {"rows", matrix.rows}};
    Attributes of_direction = rows;
    of_direction.set("momentum", s_.momentum);
    of_direction.set("nesterov", int64_t{s_.nesterov});
    const std::vector<ValueId> made =
        ops.append("muon/direction/" + orthogonalizer.name(), "muon_direction", std::move(of_direction),
                   {update.factor, p.gradient}, {p.states.front().value, kNone, kNone})
            .outputs;
    const ValueId direction = orthogonalizer.run(made[1], made[2], s_.ns_steps);
    rows.set("weight_decay", update.weight_decay);
    rows.set("adjustment", adjustment(p, matrix));
    rows.set("cast", int64_t{p.master != p.value});
    if (p.rate_scale != 1) rows.set("rate_scale", p.rate_scale);
    std::vector<ValueId> outputs{p.master};
    if (p.master != p.value) outputs.push_back(p.value);
    ops.append("update/" + orthogonalizer.name(), "muon", std::move(rows),
               {update.schedule, update.factor, direction}, std::move(outputs));
    ops.common().accumulate = before;
  }

  // Of the rate; by the shape that the matrix has in files, as PyTorch sees it.
  double adjustment(const Parameter& p, const MatrixPart& matrix) const {
    auto rows = static_cast<double>(matrix.whole_rows), columns = static_cast<double>(p.columns);
    if (p.transposed_in_file) std::swap(rows, columns);
    if (s_.adjust_lr_fn == RateAdjustment::kOriginal) return std::sqrt(std::max(1.0, rows / columns));
    return 0.2 * std::sqrt(std::max(rows, columns));
  }

  OptimizerSettings s_;
  std::unique_ptr<OptimizerRule> rest_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_muon(const OptimizerSettings& settings) {
  return std::make_unique<Muon>(settings);
}

}  // namespace recollect
