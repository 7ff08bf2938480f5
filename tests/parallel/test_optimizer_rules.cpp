// Update rules: what they keep, what they want of the host, and the op that they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/ops.h"
#include "parallel/optimizer_step.h"
#include "parallel/optimizers/eight_bit.h"
#include "parallel/optimizers/rules.h"
#include "tests/engine/expect_error.h"

namespace recollect::test::optimizer_rules_test {
namespace {

// A weight and a bias with gradients.
struct Trained {
  explicit Trained(const OptimizerSettings& settings, DType dtype = DType::kF32) {
    register_engine_ops(registry);
    add("w", {4, 6}, dtype, false);
    add("b", {4}, DType::kF32, true);
    const ValueId loss = graph.add_value(
        {.name = "loss", .shape = {1}, .dtype = DType::kF64, .persistent = true, .accumulator = true});
    handles = append_optimizer(graph, registry, parameters, loss, settings, 1, 1);
  }
  void add(const std::string& name, Shape shape, DType dtype, bool vector) {
    Parameter p{.name = name,
                .rows = shape[0],
                .columns = vector ? 1 : shape[1],
                .padded_rows = shape[0],
                .vector = vector};
    p.value = graph.add_value({.name = name,
                               .shape = shape,
                               .dtype = dtype,
                               .category = Category::kParameter,
                               .persistent = true,
                               .layer = 2});
    p.gradient = graph.add_value({.name = "grad/" + name,
                                  .shape = shape,
                                  .category = Category::kGradient,
                                  .persistent = true,
                                  .accumulator = true,
                                  .layer = 2});
    parameters.push_back(p);
  }
  const Op& update_of(const std::string& name) const {
    for (const Op& op : graph.ops())
      if (op.name == "update/" + name) return op;
    throw std::runtime_error("nothing updates " + name);
  }

  OpRegistry registry;
  Graph graph;
  std::vector<Parameter> parameters;
  OptimizerHandles handles;
};

using Names = std::vector<std::string>;

Names names_of(const std::vector<Parameter::State>& states) {
  Names names;
  for (const Parameter::State& state : states) names.push_back(state.name);
  return names;
}

std::vector<double> scalars(const OptimizerRule& rule, double learning_rate, int64_t update) {
  std::vector<double> numbers{7};  // replaced
  rule.scalars(learning_rate, update, numbers);
  return numbers;
}

TEST(OptimizerRules, EveryRowMakesARule) {
  ASSERT_FALSE(optimizer_rules().empty());
  for (const OptimizerEntry& entry : optimizer_rules()) {
    Trained t({.name = std::string(entry.name), .weight_decay = 0.25});
    const Op& op = t.update_of("w");
    EXPECT_EQ(op.phase, Phase::kOptimizer);
    EXPECT_EQ(op.inputs[0], t.handles.schedule);
    const auto count = t.graph.value(t.handles.schedule).shape.elements();
    const std::vector<double> numbers = scalars(*t.handles.rule, 0.5, 7);
    EXPECT_EQ(static_cast<int64_t>(numbers.size()), count) << entry.name;
    EXPECT_EQ(numbers[0], 0.5);
    for (const Parameter& p : t.parameters)
      for (const Parameter::State& state : p.states) {
        const Value& value = t.graph.value(state.value);
        EXPECT_EQ(value.name, state.name + "/" + p.name);
        EXPECT_EQ(value.category, Category::kOptimizer);
        EXPECT_EQ(value.layer, 2);
      }
    EXPECT_EQ(t.update_of("w").attributes.real("weight_decay"), 0.25);
    EXPECT_EQ(t.update_of("b").attributes.real("weight_decay"), 0);  // a vector
  }
  expect_error(ExitCode::kInternal, {"no update rule 'no_rule'"},
               [] { make_optimizer_rule({.name = "no_rule"}); });
}

TEST(OptimizerRules, StatesHaveTorchsNames) {
  for (const char* name : {"adamw", "adamw_hf", "adam"}) {
    const Trained t({.name = name});
    EXPECT_EQ(names_of(t.parameters[0].states), (Names{"exp_avg", "exp_avg_sq"}));
    EXPECT_EQ(t.update_of("w").def->name, name);
    EXPECT_EQ(t.graph.value(t.parameters[0].states[1].value).shape, (Shape{4, 6}));
  }
  const Trained sgd({.name = "sgd", .momentum = 0.5, .decay_all = true});
  EXPECT_EQ(names_of(sgd.parameters[1].states), Names{"momentum_buffer"});
  EXPECT_EQ(sgd.update_of("b").attributes.real("momentum"), 0.5);
  EXPECT_EQ(sgd.update_of("b").attributes.real("weight_decay"), 0.01);
}

TEST(OptimizerRules, LionHasOneMoment) {
  const Trained lion({.name = "lion", .beta2 = 0.99});
  EXPECT_EQ(names_of(lion.parameters[0].states), Names{"exp_avg"});
  EXPECT_EQ(lion.update_of("w").attributes.real("beta2"), 0.99);
  EXPECT_EQ(optimizer_entry("lion").defaults.front().value, 0.99);
}

TEST(OptimizerRules, AdafactorKeepsRowsAndColumns) {
  const Trained torchs({.name = "adafactor"}), hf({.name = "adafactor_hf", .beta1 = 0.9});
  EXPECT_EQ(names_of(torchs.parameters[0].states), (Names{"row_var", "col_var"}));
  EXPECT_EQ(names_of(torchs.parameters[1].states), Names{"variance"});
  EXPECT_EQ(names_of(hf.parameters[0].states), (Names{"exp_avg_sq_row", "exp_avg_sq_col", "exp_avg"}));
  EXPECT_EQ(names_of(hf.parameters[1].states), (Names{"exp_avg_sq", "exp_avg"}));
  EXPECT_EQ(torchs.graph.value(torchs.parameters[0].states[0].value).shape, Shape{4});
  EXPECT_EQ(torchs.graph.value(torchs.parameters[0].states[1].value).shape, (Shape{1, 6}));
  EXPECT_FALSE(torchs.handles.rule->is_elementwise());
  EXPECT_TRUE(make_optimizer_rule({.name = "adamw"})->is_elementwise());
  EXPECT_EQ(torchs.update_of("w").outputs, std::vector<ValueId>{torchs.parameters[0].master});
}

TEST(OptimizerRules, AdafactorMayTakeItsRateFromTheStep) {
  const auto fixed = make_optimizer_rule({.name = "adafactor"}),
             relative = make_optimizer_rule({.name = "adafactor_hf", .relative_step = RelativeStep::kOn}),
             warm = make_optimizer_rule({.name = "adafactor_hf", .relative_step = RelativeStep::kWarmup});
  EXPECT_EQ(fixed->rate(0.5, 4), 0.5);
  EXPECT_EQ(scalars(*fixed, 0.5, 4), (std::vector<double>{0.5, std::pow(4.0, -0.8), 0.5}));
  EXPECT_EQ(relative->rate(0.5, 4), 1e-2);
  EXPECT_EQ(relative->rate(0.5, 1000000), 1e-3);
  EXPECT_EQ(warm->rate(0.5, 4), 4e-6);
}

TEST(OptimizerRules, MuonIsForMatricesOfLayers) {
  const Trained muon({.name = "muon", .momentum = 0.95, .ns_steps = 2});
  EXPECT_EQ(names_of(muon.parameters[0].states), Names{"momentum_buffer"});
  EXPECT_EQ(names_of(muon.parameters[1].states), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(muon.update_of("w").def->name, "muon");
  EXPECT_EQ(muon.update_of("b").def->name, "adamw");
  EXPECT_DOUBLE_EQ(muon.update_of("w").attributes.real("adjustment"), 0.2 * std::sqrt(6.0));
  const auto iterations = std::count_if(muon.graph.ops().begin(), muon.graph.ops().end(),
                                        [](const Op& op) { return op.name.starts_with("muon/product"); });
  EXPECT_EQ(iterations, 2);
  EXPECT_FALSE(muon.handles.rule->is_elementwise());
}

// As a rank has it that holds some columns of each row.
std::vector<OptimizerState> states_of(const char* rule, const Parameter& p, const Shape& shape) {
  return make_optimizer_rule({.name = rule})->states(p, {.name = "grad", .shape = shape});
}

TEST(OptimizerRules, EightBitStatesAreOfMatricesThatAreLargeEnough) {
  const Parameter small{.name = "s", .rows = 63, .columns = 65, .padded_rows = 63},
      large{.name = "l", .rows = 64, .columns = 64, .padded_rows = 64},
      vector{.name = "v", .rows = 8192, .padded_rows = 8192, .vector = true},
      parts{.name = "p",
            .rows = 96,
            .columns = 64,
            .padded_rows = 96,
            .blocks = {64, 32},
            .block_names = {"a", "b"}};
  EXPECT_FALSE(is_quantised(small));
  EXPECT_TRUE(is_quantised(large));
  EXPECT_FALSE(is_quantised(vector));
  EXPECT_FALSE(is_quantised(parts)) << "one tensor of files is small";
  EXPECT_EQ(states_of("adamw8bit", small, {63, 65}).size(), 2u);
  EXPECT_EQ(states_of("lion8bit", vector, {8192}).size(), 1u);
  const std::vector<OptimizerState> adam = states_of("adamw8bit", large, {64, 64});
  ASSERT_EQ(adam.size(), 4u);
  EXPECT_EQ(adam[0].name, "exp_avg");
  EXPECT_EQ(adam[1].name, "exp_avg_absmax");
  EXPECT_EQ(adam[2].name, "exp_avg_sq");
  EXPECT_EQ(adam[3].name, "exp_avg_sq_absmax");
  EXPECT_EQ(adam[2].dtype, DType::kU8);
  EXPECT_EQ(adam[2].shape, (Shape{64, 64}));
  EXPECT_EQ(adam[3].dtype, DType::kF32);
  EXPECT_EQ(adam[3].shape, (Shape{64, 1}));
  EXPECT_EQ(adam[3].of, StateOf::kBlocks);
  EXPECT_EQ(states_of("lion8bit", large, {64, 64}).size(), 2u);
}

TEST(OptimizerRules, BlocksOfCutColumnsSayByWhomTheyAreCut) {
  Parameter p{
      .name = "p", .rows = 64, .columns = 1024, .padded_rows = 64, .split = Parameter::Split::kColumns};
  EXPECT_EQ(states_of("adamw8bit", p, {64, 256})[1].name, "exp_avg_absmax");
  EXPECT_EQ(states_of("adamw8bit", p, {64, 256})[1].shape, (Shape{64, 1}));
  EXPECT_EQ(states_of("adamw8bit", p, {64, 128})[1].name, "exp_avg_absmax_of_8_parts");
  p.columns = 300;
  EXPECT_EQ(states_of("adamw8bit", p, {64, 300})[1].name, "exp_avg_absmax");
  EXPECT_EQ(states_of("adamw8bit", p, {64, 300})[1].shape, (Shape{64, 2}));
  EXPECT_EQ(states_of("adamw8bit", p, {64, 150})[1].name, "exp_avg_absmax_of_2_parts");
}

TEST(OptimizerRules, ABf16ParameterCanBeItsOwnMaster) {
  const Trained t({.bf16_masters = true}, DType::kBF16);
  const Parameter &w = t.parameters[0], &b = t.parameters[1];
  EXPECT_EQ(w.master, w.value);
  EXPECT_EQ(b.master, b.value);
  const Op& op = t.update_of("w");
  EXPECT_EQ(op.attributes.integer("cast"), 0);
  EXPECT_EQ(op.attributes.integer("rounded_as"), 0);
  EXPECT_EQ(op.attributes.integer("rounded_columns"), 6);
  EXPECT_EQ(op.attributes.text("rounded_runs"), "0 0 ");
  EXPECT_FALSE(t.update_of("b").attributes.has("rounded_as"));
  EXPECT_EQ(op.outputs, (std::vector<ValueId>{w.value, w.states[0].value, w.states[1].value}));
}

TEST(OptimizerRules, AMasterStandsBesideARoundedParameter) {
  const Trained t({}, DType::kBF16);
  const Parameter &w = t.parameters[0], &b = t.parameters[1];
  EXPECT_EQ(t.graph.value(w.master).name, "master/w");
  EXPECT_EQ(t.graph.value(w.master).dtype, DType::kF32);
  EXPECT_EQ(b.master, b.value);
  EXPECT_EQ(t.update_of("w").outputs,
            (std::vector<ValueId>{w.master, w.states[0].value, w.states[1].value, w.value}));
  EXPECT_EQ(t.update_of("b").outputs.size(), 3u);
}

TEST(OptimizerRules, AdamCorrectsForMomentsThatBeganAtZero) {
  const auto rule = make_optimizer_rule({.name = "adamw", .beta1 = 0.9, .beta2 = 0.95});
  EXPECT_EQ(scalars(*rule, 1e-3, 3),
            (std::vector<double>{1e-3, 1.0 - std::pow(0.9, 3.0), 1.0 - std::pow(0.95, 3.0)}));
  EXPECT_EQ(scalars(*make_optimizer_rule({.name = "sgd"}), 1e-3, 3), (std::vector<double>{1e-3, 0, 0}));
}

}  // namespace
}  // namespace recollect::test::optimizer_rules_test
