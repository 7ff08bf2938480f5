// The parts of the table that are losses: of a vocabulary, of classes and of numbers.
#include <cmath>

#include "tests/engine/op_cases.h"

namespace recollect::test {

// In bf16 logits are values of the activation dtype, as they are under torch's autocast: the rounding of a
// logit is an absolute error of a log-probability. Weights are scaled for logits of size 1, the largest being
// about 4; with the rounding of their gradients that makes five.
void add_lm_head_cases(std::vector<OpCase>& cases) {
  struct Size {
    const char* name;
    int64_t samples, length, width, rows, first_row, vocabulary, chunk;
  };
  for (const auto& [name, samples, length, width, rows, first_row, vocabulary, chunk] :
       {Size{"one_chunk", 1, 5, 7, 11, 0, 11, 64}, Size{"chunks_of_3", 2, 5, 7, 11, 0, 11, 3},
        Size{"padded", 2, 5, 7, 16, 0, 11, 4}, Size{"second_half", 2, 5, 7, 8, 8, 11, 4},
        Size{"length_1", 3, 1, 7, 11, 0, 11, 2}, Size{"large", 2, 65, 96, 304, 0, 300, 48},
        Size{"many_words", 1, 5, 8, 4208, 0, 4203, 3}}) {
    const int64_t tokens = samples * length;
    const ValueSpec targets{.name = "targets",
                            .shape = {samples, length},
                            .storage = Storage::kI32,
                            .fill = Fill::kTargets,
                            .limit = vocabulary};
    const ValueSpec scale{.name = "scale",
                          .shape = {1},
                          .storage = Storage::kF64,
                          .fill = Fill::kPositive,
                          .scale = 0.01,
                          .offset = 0.125};
    const ValueSpec loss{.name = "loss", .shape = {1}, .storage = Storage::kF64};
    Attributes attributes{{"vocabulary_size", vocabulary},
                          {"first_row", first_row},
                          {"chunk_rows", chunk},
                          {"gradient", int64_t{0}}};
    OpCase c{.name = std::string("lm_head_loss_") + name,
             .kind = "lm_head_loss",
             .inputs = {activation("x", {tokens, width}),
                        activation("w", {rows, width}, 1 / std::sqrt(width)), targets, scale},
             .attributes = attributes,
             .accumulators = {{0, loss}},
             .differentiable = {0, 1},
             .bf16_roundings = 5,
             // e^(logit - lse) makes a rounding of the exponent one as many times as large as that is.
             .condition = 4 + std::log(static_cast<double>(vocabulary))};
    add_both(cases, c);
    OpCase capped = c;
    capped.name += "_capped";
    capped.attributes.set("logit_cap", 1.25);
    cases.push_back(capped);
    c.name += "_gradient";
    c.attributes.set("gradient", int64_t{1});
    c.accumulators[2] = statistic("dw", {rows, width});
    c.differentiable = {};
    add_both(cases, c);
    capped = c;
    capped.name += "_capped";
    capped.attributes.set("logit_cap", 1.25);
    cases.push_back(capped);

    c.name = std::string("lm_head_loss_bias_") + name;
    c.inputs.push_back(statistic("bias", {rows}, 0.5));
    c.accumulators[3] = statistic("dbias", {rows});
    add_both(cases, c);
    for (const char* frozen : {"frozen_weight", "frozen_bias"}) {
      OpCase other = c;
      other.name += std::string("_") + frozen;
      other.attributes.set(frozen, int64_t{1});
      other.accumulators = {{0, loss}, {2, c.accumulators[std::string(frozen) == "frozen_weight" ? 3 : 2]}};
      if (chunk == 3 || chunk == 4) add_both(cases, other);
    }
    c.name += "_no_gradient";
    c.attributes.set("gradient", int64_t{0});
    c.accumulators = {{0, loss}};
    c.differentiable = {0, 1, 4};
    cases.push_back(c);
  }
}

namespace {

// A loss without its gradient, which the definitions then add and finite differences check, and with it.
void add_loss(std::vector<OpCase>& cases, OpCase c) {
  c.accumulators = {{0, {.name = "loss", .shape = {1}, .storage = Storage::kF64}}};
  c.attributes.set("gradient", int64_t{0});
  c.differentiable = {0};
  add_both(cases, c);
  c.name += "_gradient";
  c.attributes.set("gradient", int64_t{1});
  c.differentiable = {};
  add_both(cases, c);
}

ValueSpec scales(int64_t columns) {
  return {.name = "scale",
          .shape = {columns},
          .storage = Storage::kF64,
          .fill = Fill::kPositive,
          .scale = 0.01,
          .offset = 0.125};
}

}  // namespace

void add_label_loss_cases(std::vector<OpCase>& cases) {
  struct Classes {
    const char* name;
    Shape logits, targets;
    int64_t classes, columns;
    Fill fill = Fill::kTargets;
  };
  for (const auto& [name, logits, targets, classes, columns, fill] :
       {Classes{"small", {5, 7}, {5, 1}, 7, 1}, Classes{"one_row", {1, 3}, {1}, 3, 1},
        Classes{"one_class", {4, 1}, {4, 1}, 1, 1},
        Classes{"all_ignored", {5, 7}, {5, 1}, 7, 1, Fill::kIgnored},
        Classes{"tokens", {14, 9}, {2, 7}, 9, 1}, Classes{"choices", {12, 1}, {3, 1}, 4, 1},
        Classes{"spans", {34, 2}, {2, 2}, 17, 2},
        Classes{"columns_ignored", {10, 3}, {2, 3}, 5, 3, Fill::kIgnored},
        Classes{"many_columns", {14, 5}, {2, 5}, 7, 5}, Classes{"large", {130, 300}, {2, 65}, 300, 1},
        Classes{"many_classes", {3, 4203}, {3, 1}, 4203, 1},
        Classes{"long_spans", {3 * 391, 2}, {3, 2}, 391, 2}})
    add_loss(
        cases,
        {.name = std::string("cross_entropy_loss_") + name,
         .kind = "cross_entropy_loss",
         .inputs =
             {activation("logits", logits, 2),
              {.name = "targets", .shape = targets, .storage = Storage::kI32, .fill = fill, .limit = classes},
              scales(columns)},
         .attributes = {{"classes", classes}, {"columns", columns}},
         .condition = 8 + std::log(static_cast<double>(classes))});

  for (const Shape& shape : {Shape{5, 7}, Shape{1, 1}, Shape{67, 33}})
    for (const char* form : {"squared", "sigmoid"}) {
      ValueSpec targets{.name = "targets", .shape = shape, .storage = Storage::kF32};
      if (form == std::string("sigmoid")) targets.fill = Fill::kIds, targets.limit = 2;
      add_loss(cases, {.name = std::string("elementwise_loss_") + form + "_" + std::to_string(shape[0]),
                       .kind = "elementwise_loss",
                       .inputs = {activation("logits", shape, 2), targets, scales(1)},
                       .attributes = {{"form", std::string(form)}}});
    }
}

}  // namespace recollect::test
