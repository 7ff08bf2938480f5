// Cases of the ops of rules that are made of several. Adafactor's three: in both forms, of matrices and vectors, of some rows of a parameter and of all.
#include "tests/engine/op_cases.h"

namespace recollect::test {

namespace {

ValueSpec doubles(const char* name, int64_t count) {
  return {.name = name,
          .shape = {count},
          .storage = Storage::kF64,
          .fill = Fill::kPositive,
          .scale = 0.5,
          .offset = 0.25};
}
ValueSpec second_moments(const char* name, const Shape& shape) {
  return {.name = name,
          .shape = shape,
          .storage = Storage::kStatistics,
          .fill = Fill::kPositive,
          .scale = 0.5,
          .offset = 0.25};
}

// As ranks have it that hold two thirds of the rows of a matrix, of which a parameter has several.
Attributes attributes_of(const Shape& shape, bool clamps, bool whole) {
  const int64_t rows = whole ? shape[0] : shape[0] - 2;
  Attributes of{{"factored", int64_t{shape.rank() == 2}},
                {"first_row", int64_t{whole ? 0 : 1}},
                {"rows", rows},
                {"whole_rows", whole ? rows : rows * 3 / 2},
                {"whole_columns", shape.rank() == 2 ? shape[1] : int64_t{1}},
                {"epsilon", clamps ? 1e-3 : 1e-30},
                {"scale_epsilon", 1e-3},
                {"clip_threshold", 0.5},
                {"clamps", int64_t{clamps}},
                {"scales", int64_t{whole}}};
  if (!whole) {
    of.set("repeats", int64_t{2});
    of.set("mean_of_columns", int64_t{1});
    of.set("rate_scale", 0.5);
    if (shape.rank() == 2) of.set("block", int64_t{1});
  }
  return of;
}

}  // namespace

void add_adafactor_cases(std::vector<OpCase>& cases) {
  const ValueSpec factor{
      .name = "factor", .shape = {1}, .storage = Storage::kF64, .scale = 0, .offset = 0.75},
      schedule = doubles("schedule", 3);
  for (const Shape& shape : {Shape{7}, Shape{2100}, Shape{5, 7}, Shape{131, 97}})
    for (const bool clamps : {true, false})
      for (const bool whole : {true, false}) {
        if (shape.elements() > 100 && clamps != whole) continue;  // large ones of each kind once
        const bool matrix = shape.rank() == 2;
        const Attributes attributes = attributes_of(shape, clamps, whole);
        const std::string suffix = std::string(clamps ? "_torch_" : "_hf_") +
                                   std::to_string(shape.elements()) + (whole ? "" : "_part");
        const int64_t rows = attributes.integer("rows"), columns = matrix ? shape[1] : 1;
        const ValueSpec gradient = statistic("grad", shape), master = statistic("master", shape),
                        variance = second_moments("variance", shape),
                        of_rows = second_moments("row_moments", {shape[0]}),
                        of_columns = second_moments("column_moments", {2, columns});
        cases.push_back({.name = "adafactor_sums" + suffix,
                         .kind = "adafactor_sums",
                         .inputs = {factor, gradient, master},
                         .attributes = attributes});
        OpCase moments{.name = "adafactor_moments" + suffix,
                       .kind = "adafactor_moments",
                       .inputs = {schedule, factor, gradient},
                       .attributes = attributes,
                       .accumulators = {{0, variance}},
                       .accumulate = true};
        if (matrix) {
          moments.inputs.push_back(doubles("rows", rows + 1));
          moments.inputs.push_back(doubles("columns", columns + 1));
          moments.accumulators = {{0, of_rows}, {1, of_columns}};
        }
        cases.push_back(moments);
        for (const bool with_moment : {false, true}) {
          OpCase update{.name = "adafactor" + suffix + (with_moment ? "_moment" : ""),
                        .kind = "adafactor",
                        .inputs = {schedule, factor, gradient, doubles("square", matrix ? rows + 1 : 1),
                                   doubles("update_square", 1)},
                        .attributes = attributes,
                        .accumulators = {{0, master}},
                        .accumulate = true};
          if (matrix)
            update.inputs.insert(update.inputs.end(), {of_rows, of_columns, doubles("mean", 1)});
          else
            update.inputs.push_back(variance);
          update.attributes.set("weight_decay", 0.1);
          update.attributes.set("cast", int64_t{with_moment});
          if (with_moment) {
            update.attributes.set("beta1", 0.9);
            update.accumulators[1] = statistic("m", shape, 0.1);
            update.accumulators[2] = activation("param", shape);
          }
          cases.push_back(update);
        }
      }
}

// The directions of matrices that are some rows of a parameter, combined, and taken.
void add_muon_cases(std::vector<OpCase>& cases) {
  const ValueSpec factor{
      .name = "factor", .shape = {1}, .storage = Storage::kF64, .scale = 0, .offset = 0.75},
      schedule = doubles("schedule", 3), square = doubles("square", 1);
  for (const Shape& shape : {Shape{5, 7}, Shape{131, 97}})
    for (const bool whole : {true, false}) {
      const int64_t rows = whole ? shape[0] : shape[0] - 2, columns = shape[1];
      const Attributes of_rows{{"first_row", int64_t{whole ? 0 : 1}}, {"rows", rows}};
      const std::string suffix = "_" + std::to_string(shape.elements()) + (whole ? "" : "_part");
      OpCase direction{.name = "muon_direction" + suffix,
                       .kind = "muon_direction",
                       .inputs = {factor, statistic("grad", shape)},
                       .attributes = of_rows,
                       .accumulators = {{0, statistic("momentum", shape)}},
                       .accumulate = true};
      direction.attributes.set("momentum", 0.9);
      direction.attributes.set("nesterov", int64_t{whole});
      cases.push_back(direction);
      OpCase combine{.name = "combine" + suffix,
                     .kind = "combine",
                     .inputs = {statistic("a", {rows, columns})},
                     .attributes = {{"alpha", -1.5}}};
      cases.push_back(combine);
      combine.name += "_two";
      combine.inputs.push_back(statistic("b", {rows, columns}));
      combine.attributes.set("beta", 0.75);
      cases.push_back(combine);
      combine.name += "_divided";
      combine.inputs.push_back(square);
      combine.attributes.set("epsilon", whole ? 1e-7 : 3.0);
      combine.attributes.set("square_scale", 0.5);
      cases.push_back(combine);
      OpCase update{.name = "muon" + suffix,
                    .kind = "muon",
                    .inputs = {schedule, factor, statistic("direction", {rows, columns})},
                    .attributes = of_rows,
                    .accumulators = {{0, statistic("master", shape)}},
                    .accumulate = true};
      update.attributes.set("weight_decay", 0.1);
      update.attributes.set("adjustment", 0.2);
      update.attributes.set("cast", int64_t{!whole});
      if (!whole) update.accumulators[1] = activation("param", shape);
      if (!whole) update.attributes.set("rate_scale", 0.5);
      cases.push_back(update);
    }
}

}  // namespace recollect::test
