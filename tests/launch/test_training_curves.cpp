// metrics.jsonl as curves: what they hold, how they stay small, and a file that grows, is cut off or becomes another one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "launch/report/training_curves.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::training_curves_test {
namespace {

std::vector<int64_t> steps_of(const Curve& curve) {
  std::vector<int64_t> steps;
  for (const Curve::Point& point : curve.points()) steps.push_back(point.step);
  return steps;
}

TEST(Curves, OfALongRunStayShortAndKeepMeanLeastAndMost) {
  Curve curve;
  constexpr int64_t kSteps = 100'000;
  for (int64_t step = 1; step <= kSteps; ++step)
    curve.add(step, step == 70'001 ? 1e6 : static_cast<double>(step % 2));
  EXPECT_LE(curve.points().size(), Curve::kMostPoints);
  EXPECT_GE(curve.points().size(), Curve::kMostPoints / 2);
  double sum = 0, high = 0;
  int64_t values = 0, before = 0;
  for (const Curve::Point& point : curve.points()) {
    EXPECT_GT(point.step, before);
    before = point.step;
    sum += point.mean * static_cast<double>(point.values);
    values += point.values;
    high = std::max(high, point.high);
    EXPECT_EQ(point.low, 0);
  }
  EXPECT_EQ(before, kSteps);
  EXPECT_EQ(values, kSteps);
  EXPECT_NEAR(sum, 1e6 + kSteps / 2 - 1, 1e-3);
  EXPECT_EQ(high, 1e6) << "a spike is too short to be seen";
  EXPECT_EQ(curve.last(), 0);
}

TEST(Curves, TakeOfALineWhatPeopleLookAt) {
  TrainingCurves curves;
  curves.add_line(
      R"({"step": 1, "loss": 2.5, "grad_norm": 1, "tokens": 7, "device_memory": 9, "skipped": true})");
  curves.add_line(R"({"step": 2, "loss": null, "grad_norm": 3})");  // not finite
  curves.add_line(R"({"step": 2, "eval_loss": 2.25, "eval_tokens": 7, "eval_accuracy": 0.5})");
  curves.add_line(R"({"step": 1, "loss": 9})");  // a step before the last
  for (const char* none :
       {"", "{", "[1]", "{\"loss\": 1}", "{\"step\": -1, \"loss\": 1}", "{\"step\": \"1\"}"})
    curves.add_line(none);
  EXPECT_EQ(curves.lines_left_out(), 6);
  EXPECT_EQ(curves.step(), 2);
  const nlohmann::json json = curves_json(curves);
  EXPECT_EQ(json, nlohmann::json::parse(R"({"step": 2, "curves": [
    {"key": "grad_norm", "evaluated": false, "step": [1, 2], "mean": [1.0, 3.0]},
    {"key": "loss", "evaluated": false, "step": [1], "mean": [2.5]},
    {"key": "eval_accuracy", "evaluated": true, "step": [2], "mean": [0.5]},
    {"key": "eval_loss", "evaluated": true, "step": [2], "mean": [2.25]}]})"));
}

// Of every shape of batch the most that a step held; what lacks any of it counts for nothing.
TEST(Curves, KnowWhatStepsHeldByLength) {
  TrainingCurves curves;
  const auto add = [&](int step, const char* shape) {
    curves.add_line(fmt::format(R"({{"step": {}, "loss": 1, {}}})", step, shape));
  };
  add(1, R"("samples": 8, "sequence_length": 48, "memory_peak": 500, "memory_peak_phase": "forward")");
  EXPECT_FALSE(curves_json(curves).contains("lengths")) << "all are alike";
  add(2, R"("samples": 8, "sequence_length": 64, "memory_peak": 700, "memory_peak_phase": "backward")");
  add(3, R"("samples": 8, "sequence_length": 48, "memory_peak": 510, "memory_peak_phase": "backward")");
  add(4, R"("samples": 3, "sequence_length": 48, "memory_peak": 300, "memory_peak_phase": "forward")");
  add(5, R"("samples": 3, "sequence_length": 32, "memory_peak": -1, "memory_peak_phase": "forward")");
  add(6, R"("samples": 3, "sequence_length": 32, "memory_peak": 100)");
  const nlohmann::json json = curves_json(curves);
  EXPECT_EQ(json.at("lengths"), nlohmann::json::parse(R"([
    {"length": 48, "samples": 3, "steps": 1, "memory_peak": 300, "phase": "forward"},
    {"length": 48, "samples": 8, "steps": 2, "memory_peak": 510, "phase": "backward"},
    {"length": 64, "samples": 8, "steps": 1, "memory_peak": 700, "phase": "backward"}])"));
}

class GrowingMetrics : public ::testing::Test {
 protected:
  void append(const std::string& text) const {
    std::ofstream(folder_.file("metrics.jsonl"), std::ios::app) << text;
  }
  static std::string line(int step) { return fmt::format("{{\"step\": {0}, \"loss\": {0}}}\n", step); }
  std::vector<int64_t> steps() const {
    const Curve* loss = file_.curves().find("loss");
    return loss ? steps_of(*loss) : std::vector<int64_t>{};
  }

  TemporaryFolder folder_;
  MetricsFile file_{folder_.path()};
};

TEST_F(GrowingMetrics, AreReadAsTheyCome) {
  EXPECT_FALSE(file_.read()) << "there is none yet";
  append(line(1) + line(2).substr(0, 7));
  EXPECT_TRUE(file_.read());
  EXPECT_EQ(steps(), (std::vector<int64_t>{1})) << "half a line is none";
  EXPECT_FALSE(file_.read());
  append(line(2).substr(7) + line(3));
  EXPECT_TRUE(file_.read());
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(file_.curves().lines_left_out(), 0);
}

TEST_F(GrowingMetrics, AreReadFromTheBeginningWhereTheyAreOthers) {
  append(line(1) + line(2) + line(3));
  file_.read();
  // Gone back behind a snapshot: the file is replaced, under the same name.
  folder_.write("new", line(1) + line(2));
  std::filesystem::rename(folder_.file("new"), folder_.file("metrics.jsonl"));
  EXPECT_TRUE(file_.read());
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2}));
  append(line(3) + line(4));
  file_.read();
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST_F(GrowingMetrics, HaveNoLineThatDoesNotEnd) {
  append(line(1) + std::string(300'000, 'x'));
  file_.read();
  append(std::string(300'000, 'x') + "\n" + line(2));
  file_.read();
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(file_.curves().lines_left_out(), 1);
}

}  // namespace
}  // namespace recollect::test::training_curves_test
