// Plans as data and as text.
#include <gtest/gtest.h>

#include "checkpointing/plan.h"

namespace recollect::test::plan_test {
namespace {

TEST(Plan, ADecisionIsOneWord) {
  EXPECT_EQ(word_of({.save = false}), "recompute");
  EXPECT_EQ(word_of({}), "device");
  EXPECT_EQ(word_of({.partition = true}), "partitioned");
  EXPECT_EQ(word_of({.host = true, .disk = true}), "host+disk");
  EXPECT_EQ(word_of({.partition = true, .host = true, .disk = true}), "partitioned+host+disk");
}

TEST(Plan, PrintsAsYaml) {
  Plan plan;
  plan.values["layer0/attn/norm"] = {.save = false};
  plan.values["embedding"] = {.host = true};
  plan.replay = Replay::kBisect;
  EXPECT_EQ(to_yaml(plan), R"(replay: bisect
values:
  embedding: host
  layer0/attn/norm: recompute
)");
}

TEST(Plan, AnyDifferenceCounts) {
  Plan one, other;
  EXPECT_EQ(one, other);
  other.replay = Replay::kNothing;
  EXPECT_NE(one, other);
  other = one;
  other.values["a"] = {};
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace recollect::test::plan_test
