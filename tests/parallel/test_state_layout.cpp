// Which parts of states of one byte a number lie where: blocks go with the rows and columns that they are of.
#include "parallel/snapshot/state_layout.h"

#include <gtest/gtest.h>

namespace recollect::test::state_layout_test {
namespace {

Parameter parameter(Parameter::Split split, int64_t columns) {
  return {.name = "w", .rows = 8, .columns = columns, .padded_rows = 8, .split = split};
}

StateLayout layout_of(const Parameter& p, int tensor, int data) {
  StateLayout layout(tensor, tensor * data);
  layout.add(p, {{"", DType::kBF16, StateOf::kElements, false},
                 {"exp_avg", DType::kU8, StateOf::kElements, data > 1},
                 {"exp_avg_absmax", DType::kF32, StateOf::kBlocks, data > 1}});
  return layout;
}

// Ranks together hold each number of the tensor, and each saves its own.
void expect_covered(const StateLayout& layout, std::size_t tensor) {
  int64_t held = 0, saved = 0;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    for (const StatePart& part : layout.held_by(rank))
      held += part.tensor == tensor ? part.place.elements() : 0;
    for (const StatePart& part : layout.saved_by(rank))
      saved += part.tensor == tensor ? part.place.elements() : 0;
  }
  const StateTensor& of = layout.tensors()[tensor];
  EXPECT_EQ(saved, of.rows * of.columns);
  EXPECT_GE(held, saved);
}

TEST(BlocksOfStates, GoWithTheirRowsAndColumns) {
  const Parameter columns = parameter(Parameter::Split::kColumns, 1024);
  const StateLayout two = layout_of(columns, 2, 1);
  EXPECT_EQ(two.tensors()[2].shape(), (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(two.held_by(1)[2].place, (Rectangle{0, 8, 2, 2}));
  EXPECT_EQ(two.held_by(1)[2].bytes, 8u * 2 * 4);
  const Parameter rows = parameter(Parameter::Split::kRows, 600);
  EXPECT_EQ(layout_of(rows, 2, 1).held_by(1)[2].place, (Rectangle{4, 4, 0, 3}));
  for (const Parameter& p : {columns, rows, parameter(Parameter::Split::kNone, 300)})
    for (const int tensor : {1, 2, 4}) {
      const StateLayout layout = layout_of(p, tensor, 1);
      for (std::size_t t = 0; t < 3; ++t) expect_covered(layout, t);
    }
}

TEST(BlocksOfStates, AreDividedOverDataRanksByRows) {
  Parameter p = parameter(Parameter::Split::kColumns, 512);
  p.part_rows = 3;
  const StateLayout layout = layout_of(p, 2, 3);
  for (std::size_t t = 1; t < 3; ++t) expect_covered(layout, t);
  const StatePart last = layout.held_by(5)[2];  // tensor rank 1 of data rank 2
  EXPECT_EQ(last.place, (Rectangle{6, 2, 1, 1}));
  EXPECT_EQ(last.offset, 0u);
}

TEST(BlocksOfStates, AreOtherOnesWhereRanksCutThem) {
  const Parameter p = parameter(Parameter::Split::kColumns, 300);
  EXPECT_EQ(p.block_parts(1), 1);
  EXPECT_EQ(p.block_parts(2), 2);
  const StateLayout layout = layout_of(p, 2, 1);
  EXPECT_EQ(layout.tensors()[2].shape(), (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(layout.held_by(1)[2].place, (Rectangle{0, 8, 1, 1}));
}

TEST(BlocksOfStates, AreKnownByTheirShape) {
  const Parameter p = parameter(Parameter::Split::kNone, 300);
  const StateLayout layout = layout_of(p, 1, 1);
  EXPECT_EQ(kind_of_state(p, layout.tensors()[1]), StateOf::kElements);
  EXPECT_EQ(kind_of_state(p, layout.tensors()[2]), StateOf::kBlocks);
}

}  // namespace
}  // namespace recollect::test::state_layout_test
