// Pieces of a product have the bits of the whole on the CPU, however it is cut: passes over the depth are those of the
// whole.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/graph/op_builder.h"
#include "engine/ops/ops.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"

namespace recollect::test::linear_rows_test {
namespace {

struct Sizes {
  int64_t rows, width, depth;
};

// A product and its gradient, whole and in pieces of unequal size.
class Cut {
 public:
  Cut(const Sizes& sizes, DType dtype) : sizes_(sizes), dtype_(dtype) {
    register_engine_ops(registry_);
    const ValueId x = input("x", sizes.rows, sizes.depth), w = input("w", sizes.width, sizes.depth),
                  dy = input("dy", sizes.rows, sizes.width);
    whole_ = make("linear", {x, w}, {});
    gradient_ = make("linear_backward_input", {dy, w}, {});
    for (const auto& [first, rows] : pieces()) {
      pieces_.push_back(make("linear_rows", {x, w},
                             {{"first_row", first},
                              {"rows", rows},
                              {"blocks", int64_t{1}},
                              {"stride", rows},
                              {"whole_rows", sizes.rows}}));
      piece_inputs_.push_back(input("part" + std::to_string(first), rows, sizes.width));
      gradient_pieces_.push_back(
          make("linear_backward_input", {piece_inputs_.back(), w}, {{"whole_rows", sizes.rows}}));
    }
    blocks_ = make("linear_rows", {x, w},
                   {{"first_row", int64_t{3}},
                    {"rows", int64_t{5}},
                    {"blocks", int64_t{2}},
                    {"stride", sizes.rows / 2},
                    {"whole_rows", sizes.rows}});
  }

  void expect_same_bits() {
    KernelTable kernels;
    register_cpu_kernels(kernels);
    GraphRunner runner(graph_, kernels, {});
    for (const auto& [value, seed] : inputs_)
      write(runner.tensor(value), random_numbers({.shape = graph_.value(value).shape}, seed));
    const std::vector<std::pair<int64_t, int64_t>> cut = pieces();
    for (std::size_t i = 0; i < cut.size(); ++i)
      std::memcpy(runner.tensor(piece_inputs_[i]).data,
                  rows_of(runner.tensor(inputs_[2].first), cut[i].first),
                  runner.tensor(piece_inputs_[i]).bytes());
    runner.run();
    for (std::size_t i = 0; i < cut.size(); ++i) {
      expect_rows(runner.tensor(pieces_[i]), runner.tensor(whole_), cut[i].first);
      expect_rows(runner.tensor(gradient_pieces_[i]), runner.tensor(gradient_), cut[i].first);
    }
    for (const int64_t block : {0, 1}) {
      const Tensor both = runner.tensor(blocks_);
      const Tensor one{const_cast<std::byte*>(rows_of(both, 5 * block)), {5, sizes_.width}, dtype_};
      expect_rows(one, runner.tensor(whole_), 3 + block * (sizes_.rows / 2));
    }
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> pieces() const {
    const int64_t first = sizes_.rows / 3, second = sizes_.rows - first - 17;
    return {{0, first}, {first, second}, {first + second, 17}};
  }
  ValueId input(const std::string& name, int64_t rows, int64_t columns) {
    const ValueId value = graph_.add_value({.name = name,
                                            .shape = {rows, columns},
                                            .dtype = dtype_,
                                            .category = Category::kInput,
                                            .persistent = true});
    inputs_.emplace_back(value, inputs_.size() + 1);
    return value;
  }
  ValueId make(const char* kind, std::vector<ValueId> inputs, Attributes attributes) {
    return ops_
        .append(kind + std::to_string(graph_.ops().size()), kind, std::move(attributes), std::move(inputs))
        .outputs.front();
  }
  static const std::byte* rows_of(const Tensor& tensor, int64_t first) {
    return static_cast<const std::byte*>(tensor.data) +
           static_cast<std::size_t>(first) * (tensor.bytes() / static_cast<std::size_t>(tensor.shape[0]));
  }
  void expect_rows(const Tensor& piece, const Tensor& whole, int64_t first) {
    EXPECT_EQ(std::memcmp(piece.data, rows_of(whole, first), piece.bytes()), 0)
        << sizes_.rows << " x " << sizes_.width << " x " << sizes_.depth << ", from row " << first;
  }

  const Sizes sizes_;
  const DType dtype_;
  OpRegistry registry_;
  Graph graph_;
  OpBuilder ops_{graph_, registry_};
  std::vector<std::pair<ValueId, uint64_t>> inputs_;
  ValueId whole_ = kNone, gradient_ = kNone, blocks_ = kNone;
  std::vector<ValueId> pieces_, piece_inputs_, gradient_pieces_;
};

// Depths of one pass and of several, and of which a pass is cut differently for fewer rows.
TEST(LinearRows, HaveTheBitsOfTheWholeOnTheCpu) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Sizes& sizes : {Sizes{60, 33, 40}, Sizes{90, 48, 600}, Sizes{260, 400, 1100}})
      Cut(sizes, dtype).expect_same_bits();
}

}  // namespace
}  // namespace recollect::test::linear_rows_test
