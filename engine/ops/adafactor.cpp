// Defines Adafactor as three ops per matrix: sums, moments, update. Between them, ranks that hold shards of
// the matrix add up their sums.
#include "engine/ops/adafactor.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

int64_t columns_of(const Value& gradient) { return gradient.shape.rank() == 1 ? 1 : gradient.shape[1]; }

OutputSpec numbers(int64_t count, const char* name) {
  return {.shape = {count}, .dtype = DType::kF64, .suffix = name, .category = Category::kWorkspace};
}

AdafactorSettings settings_of(const OpView& v, const Value& gradient) {
  const AdafactorSettings s(v.attributes());
  check(s.first_row >= 0 && s.rows > 0 && s.first_row + s.rows <= gradient.shape[0], v,
        "the parameter has no such rows");
  check(s.whole_rows > 0 && s.whole_columns > 0 && s.repeats > 0, v, "a matrix has rows and columns");
  return s;
}

std::vector<OutputSpec> infer_sums(const OpView& v) {
  const AdafactorSettings s = settings_of(v, v.in(1));
  check_shape(v, v.in(2), v.in(1).shape);
  if (!s.factored) return {numbers(1, "square")};
  return {numbers(s.rows + 1, "rows"), numbers(columns_of(v.in(1)) + 1, "columns")};
}

std::vector<OutputSpec> infer_moments(const OpView& v) {
  const AdafactorSettings s = settings_of(v, v.in(2));
  std::vector<OutputSpec> specs;
  if (s.factored) {
    const int64_t columns = columns_of(v.in(2));
    check_shape(v, v.in(3), {s.rows + 1});
    check_shape(v, v.in(4), {columns + 1});
    check_shape(v, v.out(0), {v.in(2).shape[0]});
    check(v.out(1).shape.rank() == 2 && v.out(1).shape[1] == columns && s.block < v.out(1).shape[0], v,
          "the second moments of columns are [matrices, columns]");
    specs = {like(v.out(0), "state0"), like(v.out(1), "state1"), numbers(1, "mean")};
  } else {
    check_shape(v, v.out(0), v.in(2).shape);
    specs = {like(v.out(0), "state0")};
  }
  specs.push_back(numbers(1, "square"));
  return specs;
}

std::vector<OutputSpec> infer_adafactor(const OpView& v) {
  const Value& gradient = v.in(2);
  const AdafactorSettings s = settings_of(v, gradient);
  v.attributes().real("weight_decay");
  std::vector<OutputSpec> specs{like(gradient, "state0")};
  if (s.beta1 > 0) specs.push_back(like(gradient, "state1"));
  if (v.attributes().integer("cast")) {
    const Value& param = v.out(static_cast<int>(specs.size()));
    check_shape(v, param, gradient.shape);
    specs.push_back(like(param, "state2"));
  }
  return specs;
}

}  // namespace

void register_adafactor(OpRegistry& registry) {
  registry.add({.name = "adafactor_sums",
                .infer = infer_sums,
                .cost = [](const OpView& v) { return streaming_cost(v, 4); },
                .measured_as = "squared_norm"});
  registry.add({.name = "adafactor_moments",
                .infer = infer_moments,
                .cost = [](const OpView& v) { return streaming_cost(v, 6); },
                .measured_as = "squared_norm"});
  registry.add({.name = "adafactor",
                .infer = infer_adafactor,
                .cost = [](const OpView& v) { return streaming_cost(v, 8); },
                .measured_as = "adamw"});
}

}  // namespace recollect::ops
