// The parts of the table that do not know tokens' order: elementwise ops, matrix products, clipping and
// optimizers.
#include "engine/ops/quantised_weight.h"
#include "tests/engine/op_cases.h"

namespace recollect::test {
namespace {

struct Size {
  const char* name;
  int64_t tokens, width;
};

constexpr Size kSizes[] = {{"small", 5, 7},   {"one_token", 1, 7}, {"width_1", 5, 1},
                           {"large", 65, 96}, {"wide", 67, 263},   {"whole_groups", 35, 1088}};

Attributes dropout_attributes(double p, int64_t length, int64_t first_token) {
  return {{"p", p},
          {"layer", int64_t{3}},
          {"site", int64_t{1}},
          {"sequence_length", length},
          {"first_token", first_token}};
}

void add_dropout_cases(std::vector<OpCase>& cases, const Size& size, double p, int64_t first_token) {
  const std::string suffix =
      std::string(size.name) + (p > 0 ? "_dropout" : "") + (first_token ? "_later" : "");
  const Shape shape{size.tokens, size.width};
  const Attributes attributes = dropout_attributes(p, size.tokens + 2, first_token);
  cases.push_back({.name = "dropout_" + suffix,
                   .kind = "dropout",
                   .inputs = {activation("x", shape)},
                   .attributes = attributes,
                   .differentiable = {0}});
  cases.push_back(
      {.name = "bias_dropout_add_" + suffix,
       .kind = "bias_dropout_add",
       .inputs = {activation("x", shape), statistic("bias", {size.width}), activation("residual", shape)},
       .attributes = attributes,
       .differentiable = {0, 1, 2}});
  add_both(cases, {.name = "bias_dropout_add_backward_" + suffix,
                   .kind = "bias_dropout_add_backward",
                   .inputs = {activation("dy", shape)},
                   .attributes = attributes,
                   .accumulators = {{1, statistic("dbias", {size.width})}}});
}

// The columns that a tensor rank has of every row.
void add_dropout_of_columns_cases(std::vector<OpCase>& cases) {
  struct Columns {
    const char* name;
    int64_t width, first, all;
  };
  for (const auto& [name, width, first, all] :
       {Columns{"odd", 7, 14, 21}, Columns{"groups", 128, 128, 384}, Columns{"groups_at_odd", 64, 65, 129}}) {
    Attributes attributes = dropout_attributes(0.4, 35, 2);
    attributes.set("first_column", first);
    attributes.set("all_columns", all);
    cases.push_back({.name = std::string("dropout_columns_") + name,
                     .kind = "dropout",
                     .inputs = {activation("x", {33, width})},
                     .attributes = attributes,
                     .differentiable = {0}});
  }
}

void add_scaled_columns_cases(std::vector<OpCase>& cases) {
  struct Columns {
    const char* name;
    int64_t tokens, width, first, columns;
  };
  for (const auto& [name, tokens, width, first, columns] :
       {Columns{"all", 5, 7, 0, 7}, Columns{"first", 5, 7, 0, 3}, Columns{"inner", 3, 9, 2, 5},
        Columns{"last", 65, 96, 64, 32}, Columns{"one", 4, 1, 0, 1}, Columns{"wide", 67, 263, 131, 100}}) {
    const ValueSpec whole = activation("x", {tokens, width});
    Attributes attributes{{"first_column", first}, {"scale", 0.75}};
    cases.push_back({.name = std::string("add_scaled_columns_") + name,
                     .kind = "add_scaled_columns",
                     .inputs = {whole, activation("part", {tokens, columns})},
                     .attributes = attributes,
                     .differentiable = {0, 1}});
    attributes.set("columns", columns);
    cases.push_back({.name = std::string("scaled_columns_") + name,
                     .kind = "scaled_columns",
                     .inputs = {whole},
                     .attributes = attributes,
                     .differentiable = columns == width ? std::vector<int>{0} : std::vector<int>{}});
  }
}

// The derivative of tanh's form has x u'(x) (1 - t^2) with u'(x) = 0.8 (1 + 0.13 x^2), where t is rounded beside 1: at x = 5,
// beyond which t is 1, that rounding is multiplied by 16.
constexpr double kTanhGeluCondition = 16;

void add_gelu_cases(std::vector<OpCase>& cases, const Size& size, const char* form) {
  const std::string suffix = std::string(form) + "_" + size.name;
  const Shape shape{size.tokens, size.width};
  const Attributes attributes{{"form", std::string(form)}};
  const ValueSpec x = activation("x", shape, 2), bias = statistic("bias", {size.width});
  cases.push_back({.name = "bias_gelu_" + suffix,
                   .kind = "bias_gelu",
                   .inputs = {x, bias},
                   .attributes = attributes,
                   .differentiable = {0, 1}});
  add_both(cases, {.name = "bias_gelu_backward_" + suffix,
                   .kind = "bias_gelu_backward",
                   .inputs = {activation("dy", shape), x, bias},
                   .attributes = attributes,
                   .accumulators = {{1, statistic("dbias", {size.width})}},
                   .condition = std::string(form) == "tanh" ? kTanhGeluCondition : 1});
}

// One input that a kernel of its own backward reads beside dy.
void add_unary_cases(std::vector<OpCase>& cases, const Size& size) {
  const Shape shape{size.tokens, size.width}, wide{size.tokens, 2 * size.width};
  const std::string suffix = std::string("_") + size.name;
  cases.push_back({.name = "swiglu" + suffix,
                   .kind = "swiglu",
                   .inputs = {activation("x", wide, 2)},
                   .differentiable = {0}});
  cases.push_back({.name = "swiglu_backward" + suffix,
                   .kind = "swiglu_backward",
                   .inputs = {activation("dy", shape), activation("x", wide, 2)}});
  for (const char* form : {"tanh", "erf"}) {
    const Attributes attributes{{"form", std::string(form)}};
    const double condition = std::string(form) == "tanh" ? kTanhGeluCondition : 1;
    const std::string of_form = std::string("_") + form + suffix;
    cases.push_back({.name = "geglu" + of_form,
                     .kind = "geglu",
                     .inputs = {activation("x", wide, 2)},
                     .attributes = attributes,
                     .differentiable = {0},
                     .condition = condition});
    cases.push_back({.name = "geglu_backward" + of_form,
                     .kind = "geglu_backward",
                     .inputs = {activation("dy", shape), activation("x", wide, 2)},
                     .attributes = attributes,
                     .condition = condition});
    cases.push_back({.name = "gelu" + of_form,
                     .kind = "gelu",
                     .inputs = {activation("x", shape, 2)},
                     .attributes = attributes,
                     .differentiable = {0},
                     .condition = condition});
    cases.push_back({.name = "gelu_backward" + of_form,
                     .kind = "gelu_backward",
                     .inputs = {activation("dy", shape), activation("pre", shape, 2)},
                     .attributes = attributes,
                     .condition = condition});
  }
  // Away from the kink, where differences mean nothing.
  ValueSpec x = activation("x", shape);
  x.fill = Fill::kPositive, x.offset = 0.5;
  cases.push_back(
      {.name = "relu_of_positive" + suffix, .kind = "relu", .inputs = {x}, .differentiable = {0}});
  x.scale = -1, x.offset = -0.5;
  cases.push_back(
      {.name = "relu_of_negative" + suffix, .kind = "relu", .inputs = {x}, .differentiable = {0}});
  cases.push_back({.name = "relu" + suffix, .kind = "relu", .inputs = {activation("x", shape)}});
  cases.push_back({.name = "relu_backward" + suffix,
                   .kind = "relu_backward",
                   .inputs = {activation("dy", shape), activation("y", shape)}});
  cases.push_back(
      {.name = "tanh" + suffix, .kind = "tanh", .inputs = {activation("x", shape)}, .differentiable = {0}});
  cases.push_back({.name = "tanh_backward" + suffix,
                   .kind = "tanh_backward",
                   .inputs = {activation("dy", shape), activation("y", shape, 0.4)}});
}

}  // namespace

void add_pointwise_cases(std::vector<OpCase>& cases) {
  add_dropout_of_columns_cases(cases);
  add_scaled_columns_cases(cases);
  for (const Size& size : kSizes) {
    add_dropout_cases(cases, size, 0, 0);
    add_dropout_cases(cases, size, 0.4, 0);
    add_dropout_cases(cases, size, 0.4, 2);
    add_gelu_cases(cases, size, "tanh");
    add_gelu_cases(cases, size, "erf");
    add_unary_cases(cases, size);
    const Shape shape{size.tokens, size.width};
    cases.push_back({.name = std::string("add_") + size.name,
                     .kind = "add",
                     .inputs = {activation("a", shape), activation("b", shape)},
                     .attributes = {},
                     .differentiable = {0, 1}});
    add_both(cases, {.name = std::string("column_sum_") + size.name,
                     .kind = "column_sum",
                     .inputs = {activation("dy", shape)},
                     .attributes = {},
                     .accumulators = {{0, statistic("dbias", {size.width})}}});
  }
}

namespace {

// Where GELU is a pass over the product it is made of what was rounded, and so is what its derivative is multiplied with.
void add_linear_gelu_cases(std::vector<OpCase>& cases) {
  struct Product {
    const char* name;
    int64_t tokens, ins, outs;
  };
  for (const auto& [name, tokens, ins, outs] :
       {Product{"small", 5, 7, 3}, Product{"one_token", 1, 7, 3}, Product{"vectors", 6, 8, 16},
        Product{"large", 65, 96, 304}}) {
    const ValueSpec w = activation("w", {outs, ins}, 0.5);
    cases.push_back({.name = std::string("linear_gelu_") + name,
                     .kind = "linear_gelu",
                     .inputs = {activation("x", {tokens, ins}), w, statistic("bias", {outs})},
                     .differentiable = {0, 1, 2},
                     .bf16_roundings = 3});
    cases.push_back({.name = std::string("linear_backward_input_gelu_") + name,
                     .kind = "linear_backward_input_gelu",
                     .inputs = {activation("dy", {tokens, outs}), w, activation("pre", {tokens, ins}, 2)},
                     .bf16_roundings = 3,
                     .condition = kTanhGeluCondition});
  }
}

}  // namespace

void add_linear_cases(std::vector<OpCase>& cases) {
  add_linear_gelu_cases(cases);
  struct Product {
    const char* name;
    int64_t tokens, ins, outs;
  };
  for (const auto& [name, tokens, ins, outs] :
       {Product{"small", 5, 7, 3}, Product{"one_token", 1, 7, 3}, Product{"ones", 1, 1, 1},
        Product{"large", 65, 96, 300}, Product{"odd", 67, 33, 129}}) {
    const ValueSpec x = activation("x", {tokens, ins}), w = activation("w", {outs, ins});
    const ValueSpec dy = activation("dy", {tokens, outs}), bias = statistic("bias", {outs});
    const std::string kind = "linear", suffix = std::string("_") + name;
    cases.push_back(
        {.name = kind + suffix, .kind = kind, .inputs = {x, w}, .attributes = {}, .differentiable = {0, 1}});
    cases.push_back({.name = kind + "_absent_bias" + suffix,
                     .kind = kind,
                     .inputs = {x, w, absent()},
                     .attributes = {},
                     .differentiable = {0, 1}});
    cases.push_back({.name = kind + "_bias" + suffix,
                     .kind = kind,
                     .inputs = {x, w, bias},
                     .attributes = {},
                     .differentiable = {0, 1, 2}});
    if (tokens >= 5)  // two blocks of rows, and the rows of one
      for (const int64_t blocks : {1, 2})
        cases.push_back({.name = kind + "_rows_" + std::to_string(blocks) + suffix,
                         .kind = "linear_rows",
                         .inputs = {x, w, bias},
                         .attributes = {{"first_row", int64_t{1}},
                                        {"rows", tokens / 2 - 1},
                                        {"blocks", blocks},
                                        {"stride", tokens / 2},
                                        {"whole_rows", tokens}}});
    cases.push_back({.name = kind + "_backward_input" + suffix,
                     .kind = "linear_backward_input",
                     .inputs = {dy, w},
                     .attributes = {}});
    OpCase weight{.name = kind + "_backward_weight" + suffix,
                  .kind = "linear_backward_weight",
                  .inputs = {x, dy},
                  .attributes = {{"bias", int64_t{0}}},
                  .accumulators = {{0, statistic("dw", {outs, ins})}}};
    add_both(cases, weight);
    weight.name = kind + "_backward_weight_bias" + suffix;
    weight.attributes.set("bias", int64_t{1});
    weight.accumulators[1] = statistic("dbias", {outs});
    add_both(cases, weight);
  }
}

void add_float8_cases(std::vector<OpCase>& cases) {
  for (const char* format : {"e4m3", "e5m2"})
    for (const char* copies : {"rows", "columns", "both"})
      for (const Shape& shape : {Shape{35, 70}, Shape{68, 36}})
        if (shape[0] % 4 != 0 || copies == std::string("both"))  // of whole groups of four, and not
          cases.push_back({.name = std::string("quantise_") + format + "_" + copies + "_" +
                                   std::to_string(shape.elements()),
                           .kind = "quantise",
                           .inputs = {activation("x", shape, 3)},
                           .attributes = {{"format", std::string(format)}, {"copies", std::string(copies)}}});
  cases.push_back({.name = "quantise_e4m3_rows_of_matrices",
                   .kind = "quantise",
                   .inputs = {activation("x", {3, 4, 20}, 3)},
                   .attributes = {{"format", std::string("e4m3")}, {"copies", std::string("rows")}}});
  // Of one number: no backend's roundings make another code of the largest. test_float8.cpp has what differs.
  for (const auto& [kind, form] : {std::pair{"bias_gelu_quantise", "tanh"},
                                   {"bias_gelu_quantise", "erf"},
                                   {"swiglu_quantise", "gated"},
                                   {"swiglu_backward_quantise", "gated"}}) {
    ValueSpec x = activation("x", {35, 72}, 0);
    x.offset = 0.75;
    OpCase c{.name = std::string(kind) + "_" + form,
             .kind = kind,
             .inputs = {x, statistic("bias", {72}, 0, 0.25)},
             .attributes = {{"format", std::string("e4m3")}, {"copies", std::string("both")}}};
    form == std::string("gated") ? c.inputs.pop_back() : c.attributes.set("form", std::string(form));
    if (c.kind == "swiglu_backward_quantise") {
      c.inputs.insert(c.inputs.begin(), {.name = "dy", .shape = {35, 36}, .scale = 0, .offset = 1.5});
    }
    cases.push_back(c);
  }
  const auto alike = [](ValueSpec spec, double value) {
    spec.scale = 0, spec.offset = value;
    return spec;
  };
  const Shape shape{35, 72}, columns{72};
  const ValueSpec x = alike(activation("x", shape), 0.75), weight = statistic("weight", columns, 0, 1),
                  bias = statistic("bias", columns, 0, 0.25);
  const auto norm = [&](const char* kind, std::vector<ValueSpec> inputs) {
    cases.push_back(
        {.name = kind,
         .kind = kind,
         .inputs = std::move(inputs),
         .attributes = {
             {"epsilon", 1e-5}, {"format", std::string("e4m3")}, {"copies", std::string("both")}}});
  };
  norm("layer_norm_quantise", {x, weight, bias});
  norm("residual_norm_quantise",
       {x, bias, alike(activation("residual", shape), 0.5), weight, statistic("shift", columns, 0, 0.25)});
  norm("rms_norm_quantise", {x, weight});
  const auto codes = [](const char* name, Shape shape, Storage storage) {
    return ValueSpec{.name = name, .shape = shape, .storage = storage};
  };
  for (const auto& [name, storage] : {std::pair{"e4m3", Storage::kE4M3}, {"e5m2", Storage::kE5M2}})
    for (const Shape& shape : {Shape{35, 71}, Shape{2, 3, 64}})  // of whole vectors, and not
      cases.push_back({.name = std::string("dequantise_") + name + "_" + std::to_string(shape.elements()),
                       .kind = "dequantise",
                       .inputs = {codes("x", shape, storage), statistic("scale", {1}, 0, 0.375)},
                       .attributes = {{"dtype", std::string("statistics")}}});
  const ValueSpec a_scale = statistic("a_scale", {1}, 0, 0.25), b_scale = statistic("b_scale", {1}, 0, 3);
  struct Product {
    const char* name;
    int64_t m, n, k;
  };
  for (const auto& [name, m, n, k] : {Product{"small", 16, 32, 48}, Product{"wide", 48, 160, 112}}) {
    const ValueSpec weight = activation("weight", {n, k}), bias = statistic("bias", {n});
    const ValueSpec b = codes("b", {n, k}, Storage::kE4M3), x = codes("x", {m, k}, Storage::kE4M3),
                    dy = codes("dy", {m, k}, Storage::kE5M2);
    const std::string suffix = std::string("_") + name;
    cases.push_back(
        {.name = "linear_fp8" + suffix, .kind = "linear_fp8", .inputs = {x, a_scale, b, b_scale, weight}});
    cases.push_back({.name = "linear_fp8_bias" + suffix,
                     .kind = "linear_fp8",
                     .inputs = {x, a_scale, b, b_scale, weight, bias}});
    cases.push_back({.name = "linear_fp8_backward_input" + suffix,
                     .kind = "linear_fp8_backward_input",
                     .inputs = {dy, a_scale, b, b_scale, weight}});
    add_both(cases, {.name = "linear_fp8_backward_weight" + suffix,
                     .kind = "linear_fp8_backward_weight",
                     .inputs = {dy, a_scale, b, b_scale},
                     .accumulators = {{0, statistic("dw", {m, n})}}});
  }
}

void add_optimizer_cases(std::vector<OpCase>& cases) {
  const auto number = [](const char* name, double value) {
    return ValueSpec{.name = name, .shape = {1}, .storage = Storage::kF64, .scale = 0, .offset = value};
  };
  cases.push_back({.name = "squared_norm_one",
                   .kind = "squared_norm",
                   .inputs = {statistic("g", {5, 7})},
                   .attributes = {}});
  cases.push_back({.name = "squared_norm_many",
                   .kind = "squared_norm",
                   .inputs = {statistic("g", {5, 7}), statistic("h", {1}), statistic("k", {300, 96})},
                   .attributes = {}});
  for (const auto& [name, max_norm] : {std::pair{"clips", 1.0}, {"large_enough", 100.0}, {"never", 0.0}})
    cases.push_back({.name = std::string("clip_factor_") + name,
                     .kind = "clip_factor",
                     .inputs = {number("sharded", 9.5), number("replicated", 3.25)},
                     .attributes = {{"max_norm", max_norm}}});

  const ValueSpec schedule{.name = "schedule",
                           .shape = {3},
                           .storage = Storage::kF64,
                           .fill = Fill::kPositive,
                           .scale = 0.01,
                           .offset = 0.02};
  for (const Shape& shape : {Shape{7}, Shape{5, 7}, Shape{65, 97}}) {
    for (const int64_t cast : {0, 1}) {
      const std::string suffix = "_" + std::to_string(shape.elements()) + (cast ? "_cast" : "");
      const ValueSpec master = statistic("master", shape), m = statistic("m", shape, 0.1);
      const ValueSpec v{.name = "v",
                        .shape = shape,
                        .storage = Storage::kStatistics,
                        .fill = Fill::kPositive,
                        .scale = 0.1,
                        .offset = 0.01};
      const ValueSpec param{.name = "param", .shape = shape, .fill = Fill::kGarbage};
      for (const char* kind : {"adamw", "adamw_hf", "adam", "sgd", "lion"}) {
        const bool sgd = std::string(kind) == "sgd", one_moment = sgd || std::string(kind) == "lion";
        OpCase c{.name = kind + suffix,
                 .kind = kind,
                 .inputs = {schedule, number("factor", 0.75), statistic("grad", shape)},
                 .attributes = {{"weight_decay", 0.1}, {"cast", cast}},
                 .accumulators = {{0, master}, {1, m}},
                 .accumulate = true};
        if (!one_moment) c.accumulators[2] = v;
        if (cast) c.accumulators[one_moment ? 2 : 3] = param;
        if (sgd) c.attributes.set("momentum", 0.9);
        for (const auto& [name, value] : {std::pair{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}})
          if (!sgd) c.attributes.set(name, value);
        cases.push_back(c);
      }
    }
  }
}

// Rows of one short block, and of a whole one and a rest; of whole vectors, and not.
void add_quantised_cases(std::vector<OpCase>& cases) {
  for (const auto& [name, row] : {std::pair("nf4", StoredRow{WeightFormat::kNF4, false, 128}),
                                  {"nf4_nested", {WeightFormat::kNF4, true, 192}},
                                  {"fp4", {WeightFormat::kFP4, false, 64}},
                                  {"fp4_nested", {WeightFormat::kFP4, true, 128}},
                                  {"int8", {WeightFormat::kInt8, false, 36}},
                                  {"int8_of_vectors", {WeightFormat::kInt8, false, 64}}})
    cases.push_back({.name = std::string("dequantise_rows_") + name,
                     .kind = std::string(kStoredRows),
                     // No float of such bytes is large, or none.
                     .inputs = {{.name = "rows",
                                 .shape = {5, row.bytes()},
                                 .storage = Storage::kU8,
                                 .fill = Fill::kIds,
                                 .limit = 64}},
                     .attributes = attributes_of(row, DType::kF32)});
  const ValueSpec schedule{.name = "schedule",
                           .shape = {3},
                           .storage = Storage::kF64,
                           .fill = Fill::kPositive,
                           .scale = 0.01,
                           .offset = 0.02};
  const auto entries = [](const char* name, const Shape& shape) {
    return ValueSpec{.name = name, .shape = shape, .storage = Storage::kU8, .fill = Fill::kIds, .limit = 256};
  };
  const auto sizes = [](const char* name, const Shape& shape) {
    return ValueSpec{.name = name,
                     .shape = {shape[0], (shape[1] + 255) / 256},
                     .storage = Storage::kF32,
                     .fill = Fill::kPositive,
                     .scale = 0.1,
                     .offset = 0.01};
  };
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 300}, Shape{3, 304}})
    for (const int64_t cast : {0, 1})
      for (const bool adam : {true, false}) {
        OpCase c{
            .name = std::string(adam ? "adamw8bit_" : "lion8bit_") + std::to_string(shape.elements()) +
                    (cast ? "_cast" : ""),
            .kind = adam ? "adamw8bit" : "lion8bit",
            .inputs = {schedule,
                       {.name = "factor", .shape = {1}, .storage = Storage::kF64, .scale = 0, .offset = 0.75},
                       statistic("grad", shape)},
            .attributes =
                {{"weight_decay", 0.1}, {"cast", cast}, {"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}},
            .accumulators = {{0, statistic("master", shape)},
                             {1, entries("m", shape)},
                             {2, sizes("m_sizes", shape)}},
            .accumulate = true};
        if (adam) c.accumulators[3] = entries("v", shape), c.accumulators[4] = sizes("v_sizes", shape);
        if (cast) c.accumulators[adam ? 5 : 3] = {.name = "param", .shape = shape, .fill = Fill::kGarbage};
        cases.push_back(c);
      }
}

}  // namespace recollect::test
