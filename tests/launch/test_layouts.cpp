// One training run, cut in every way: tensor ranks, data ranks, sequence parallelism, micro-batches. Loss and
// gradients agree to rounding, with dropout on, and every layout's memory is what was predicted.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/launch/training_harness.h"

namespace recollect::test::layouts_test {
namespace {

struct Ranks {
  int tensor, data;
  bool sequence_parallel;
  int micro_batch;
};

std::vector<std::string> overrides(const Ranks& layout) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(layout.tensor),
          "parallelism.data_parallel_size=" + std::to_string(layout.data),
          "parallelism.ranks_per_process=" + std::to_string(layout.tensor * layout.data),
          std::string("parallelism.sequence_parallel=") + (layout.sequence_parallel ? "true" : "false"),
          "training.micro_batch_size=" + std::to_string(layout.micro_batch)};
}

// SGD, because Adam divides by the gradient's own size: where a gradient is zero but for rounding (the key's
// bias, which softmax cannot see), it turns that rounding into a step.
class Layouts : public testing::TestWithParam<Ranks> {};

TEST_P(Layouts, AgreeWithOneRank) {
  static const Trained one = train(kTinyYaml, overrides({1, 1, false, 1}));
  const Trained cut = train(kTinyYaml, overrides(GetParam()));
  ASSERT_EQ(one.steps.size(), cut.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_NEAR(cut.steps[i].loss, one.steps[i].loss, 1e-12 * std::abs(one.steps[i].loss));
    EXPECT_NEAR(cut.steps[i].grad_norm, one.steps[i].grad_norm, 1e-12 * one.steps[i].grad_norm);
  }
  EXPECT_LE(largest_difference(one.gradients, cut.gradients), 1e-12);
  EXPECT_LE(largest_difference(one.parameters, cut.parameters), 1e-12);
  for (std::size_t rank = 0; rank < cut.predicted.size(); ++rank)
    EXPECT_EQ(cut.predicted[rank], cut.measured[rank]);
}

std::string layout_name(const testing::TestParamInfo<Ranks>& info) {
  const Ranks& l = info.param;
  return "Tensor" + std::to_string(l.tensor) + "Data" + std::to_string(l.data) + "Micro" +
         std::to_string(l.micro_batch) + (l.sequence_parallel ? "Sequence" : "");
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         testing::Values(Ranks{1, 1, false, 1}, Ranks{1, 1, false, 2}, Ranks{1, 1, false, 4},
                                         Ranks{2, 1, false, 1}, Ranks{4, 1, false, 2}, Ranks{1, 2, false, 1},
                                         Ranks{1, 2, false, 2}, Ranks{2, 2, false, 1}, Ranks{2, 1, true, 1},
                                         Ranks{4, 1, true, 2}, Ranks{2, 2, true, 2}, Ranks{1, 4, false, 1},
                                         Ranks{4, 2, true, 1}),
                         layout_name);

TEST(Layouts, DropoutMatters) {  // or the comparison above would prove less than it says
  const Trained with = train(kTinyYaml);
  const Trained without =
      train(kTinyYaml, {"model.resid_pdrop=0", "model.embd_pdrop=0", "model.attn_pdrop=0"});
  EXPECT_GT(largest_difference(with.gradients, without.gradients), 1e-3);
}

TEST(Layouts, BucketsDoNotMatter) {
  const std::vector<std::string> two = overrides({1, 2, false, 1});
  std::vector<std::string> large = two;
  large.push_back("parallelism.gradient_bucket_mb=1000");
  EXPECT_EQ(largest_difference(train(kTinyYaml, two).parameters, train(kTinyYaml, large).parameters), 0);
}

}  // namespace
}  // namespace recollect::test::layouts_test
