// Where the time of a step went: the parts are the whole, each op is in its class, and the command says so without leaving
// anything behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "engine/io/json.h"
#include "launch/report/profile.h"
#include "tests/launch/process.h"
#include "tests/launch/report_harness.h"

namespace recollect::test::profile_test {
namespace {

using nlohmann::json;

TEST(Profile, ItsPartsAreTheStep) {
  const auto reports = reports_of_run(checkpointed(2, "full", true, true));
  for (const RankReport& report : reports) {
    ASSERT_TRUE(report.timeline.measured);
    const Profile profile = make_profile(report.timeline);
    double kinds = 0, classes = 0;
    for (const ProfileRow& row : profile.kinds) kinds += row.seconds;
    for (const ProfileRow& row : profile.classes) classes += row.seconds;
    EXPECT_NEAR(kinds, classes, 1e-9);
    EXPECT_GT(classes, 0);
    EXPECT_GT(profile.between(), 0);
    EXPECT_NEAR(classes + profile.waiting + profile.between(), profile.step, 1e-9);
    EXPECT_NEAR(profile.step, 1e-9 * static_cast<double>(report.timeline.measured->end), 1e-12);
    EXPECT_GT(profile.beside, 0) << "copies to the host have a stream of their own";
  }
}

TEST(Profile, CountsEveryOpOfAllMicroBatchesInItsClass) {
  const RankReport report = reports_of_run(checkpointed(1, "none", false, false)).front();
  const Profile profile = make_profile(report.timeline);
  const std::map<std::string, OpClass> expected = {
      {"linear", OpClass::kContraction},       {"linear_backward_weight", OpClass::kContraction},
      {"attention", OpClass::kAttention},      {"attention_backward", OpClass::kAttention},
      {"layer_norm", OpClass::kNormalisation}, {"layer_norm_backward", OpClass::kNormalisation},
      {"bias_gelu", OpClass::kElementwise},    {"embedding_backward", OpClass::kElementwise},
      {"adamw", OpClass::kOptimizer},          {"squared_norm", OpClass::kOptimizer}};
  std::set<std::string> seen;
  for (const ProfileRow& row : profile.kinds) {
    int64_t ops = 0;
    for (const Timeline::Op& op : report.timeline.ops) ops += op.kind == row.kind && op.phase == row.phase;
    const int64_t micro_batches =
        row.phase == Phase::kOptimizer ? 1 : report.timeline.measured->micro_batches;
    EXPECT_EQ(row.runs, ops * micro_batches) << row.kind;
    if (const auto of = expected.find(row.kind); of != expected.end()) {
      EXPECT_EQ(row.is, of->second) << row.kind;
      seen.insert(row.kind);
    }
  }
  EXPECT_GE(seen.size(), 9u);
}

// Two ops, by hand: one at half the roof of products, one at a quarter of memory's.
TEST(Profile, WhatIsLostIsTimeBeyondTheRoof) {
  Timeline timeline;
  timeline.roof = {.flops = 100e9, .bandwidth = 10e9};
  timeline.ops = {{.name = "a",
                   .kind = "linear",
                   .is = OpClass::kContraction,
                   .flops = 1'000'000,
                   .touched = 100,
                   .waits = {}},
                  {.name = "b",
                   .kind = "add",
                   .is = OpClass::kElementwise,
                   .flops = 10,
                   .touched = 1'000'000,
                   .waits = {}}};
  timeline.measured =
      StepTimeline{.micro_batches = 1,
                   .end = 500'000,
                   .runs = {{.micro_batch = 0,
                             .first = 0,
                             .begin = 0,
                             .end = 450'000,
                             .ops = {{.begin = 0, .end = 20'000}, {.begin = 30'000, .end = 430'000}}}}};
  const Profile profile = make_profile(timeline);
  ASSERT_EQ(profile.kinds.size(), 2u);
  EXPECT_EQ(profile.kinds[0].kind, "add");
  EXPECT_NEAR(profile.kinds[0].lost(), 300e-6, 1e-9);
  EXPECT_NEAR(profile.kinds[1].lost(), 10e-6, 1e-9);
  const std::string text = profile_text(timeline);
  EXPECT_NE(text.find("25 %"), std::string::npos) << text;
  EXPECT_NE(text.find("50 %"), std::string::npos) << text;
  EXPECT_NE(text.find("roofline: 100.0 GFLOP/s of matrix products, 10.0 GB/s of memory"), std::string::npos)
      << text;
  EXPECT_LT(text.find("add  "), text.find("linear  "));
}

TEST(ProfileCommand, TellsAndLeavesNothing) {
  const Workplace place;
  const Finished told = place.recollect({"profile", "c.yaml"});
  ASSERT_EQ(told.status, 0) << told.err;
  for (const char* part :
       {"steps 4 to 8, measured, medians:", "contraction ", "normalisation ", "element-wise ", "attention ", "optimizer ",
        "between ops ", "op, by time ", "roofline: not measured on this machine"})
    EXPECT_NE(told.out.find(part), std::string::npos) << part << " in\n" << told.out;
  EXPECT_FALSE(std::filesystem::exists(place.file("out")));

  const Finished numbers =
      place.recollect({"profile", "c.yaml", "training.max_steps=4", "--json", "--html", "page.html"});
  ASSERT_EQ(numbers.status, 0) << numbers.err;
  const json profile = json::parse(numbers.out);
  double sum = profile.at("waiting_for_streams").get<double>() + profile.at("between_ops").get<double>();
  for (const json& row : profile.at("classes")) sum += row.at("seconds").get<double>();
  EXPECT_NEAR(sum, profile.at("step").get<double>(), 1e-6);
  EXPECT_TRUE(std::filesystem::exists(place.file("page.html")));

  const Finished nothing = place.recollect({"profile", "c.yaml", "training.max_steps=0"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(place.recollect({"profile"}).status, 0);
}

}  // namespace
}  // namespace recollect::test::profile_test
