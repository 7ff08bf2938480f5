// The runs of MLflow's store hold what metrics.jsonl holds: read back here, and by MLflow's own client where Python has it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "launch/train/mlflow.h"
#include "tests/launch/process.h"
#include "tests/launch/python.h"

namespace recollect::test::mlflow_test {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

const Words kQuick = {"evaluation.every_steps=2", "evaluation.batches=1", "memory_report.at=[]",
                      "profiling.step=0", "logging.report_to=[jsonl,mlflow]"};

// The runs of the only experiment.
std::vector<std::string> runs_in(const std::string& store) {
  std::vector<std::string> found;
  if (fs::exists(store))
    for (const auto& entry : fs::directory_iterator(store + "/0"))
      if (entry.is_directory()) found.push_back(entry.path());
  return found;
}

// name -> [[step, value]], in the order of the lines.
json read_metrics(const std::string& run) {
  json metrics = json::object();
  for (const auto& entry : fs::directory_iterator(run + "/metrics")) {
    std::istringstream lines(TemporaryFolder::read(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      int64_t milliseconds = 0, step = -1;
      std::string value, rest;
      words >> milliseconds >> value >> step;
      EXPECT_TRUE(words && !(words >> rest)) << line;
      EXPECT_GT(milliseconds, 1700000000000) << line;
      metrics[entry.path().filename()].push_back({step, std::stod(value)});
    }
  }
  return metrics;
}

int status_of(const std::string& run) {
  const std::string meta = TemporaryFolder::read(run + "/meta.yaml"), key = "\nstatus: ";
  return std::stoi(meta.substr(meta.find(key) + key.size()));
}

// metrics.jsonl in the same form.
json expected_metrics(const Workplace& place) {
  json metrics = json::object();
  for (const json& line : place.metrics())
    for (const auto& [key, value] : line.items())
      if (key != "step" && value.is_number()) metrics[key].push_back({line.at("step"), value.get<double>()});
  return metrics;
}

// Values that a clock decides are printed with fewer digits in metrics.jsonl.
void expect_same(const json& found, const json& expected) {
  ASSERT_EQ(found.size(), expected.size()) << found << expected;
  for (const auto& [name, points] : expected.items()) {
    ASSERT_TRUE(found.contains(name)) << name;
    ASSERT_EQ(found[name].size(), points.size()) << name;
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(found[name][i][0], points[i][0]) << name;
      const double value = points[i][1];
      const bool timed = name.find("second") != std::string::npos;
      EXPECT_NEAR(found[name][i][1].get<double>(), value, timed ? 1e-5 * std::abs(value) : 0) << name;
    }
  }
}

TEST(Mlflow, HasTheMetricsAndTheConfiguration) {
  const Workplace place;
  const Finished finished = place.train(kQuick + Words{"training.max_steps=4"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::vector<std::string> runs = runs_in(place.file("out/mlruns"));
  ASSERT_EQ(runs.size(), 1u);
  const json expected = expected_metrics(place);
  EXPECT_EQ(expected.at("loss").size(), 4u);
  EXPECT_EQ(expected.at("eval_loss").size(), 2u);
  expect_same(read_metrics(runs[0]), expected);
  EXPECT_EQ(status_of(runs[0]), 3);  // FINISHED
  EXPECT_EQ(TemporaryFolder::read(runs[0] + "/params/training.max_steps"), "4");
  EXPECT_EQ(TemporaryFolder::read(runs[0] + "/tags/mlflow.runName"), "out");
}

TEST(Mlflow, ItsOwnClientAgrees) {
  const std::string python = python_with("mlflow");
  if (python.empty()) GTEST_SKIP() << "no python3 here has mlflow";
  const Workplace place;
  const Words saves = kQuick + Words{"snapshot.every_steps=2", "logging.mlflow_dir=it's here"};
  ASSERT_EQ(place.train(saves + Words{"training.max_steps=2"}).status, 0);
  ASSERT_EQ(place.train(saves + Words{"training.max_steps=4"}).status, 0);
  const Finished read = Process({python, RECOLLECT_SOURCE_DIR "/tests/launch/read_mlflow.py", "it's here"},
                                place.folder().path())
                            .wait(Workplace::kBound);
  ASSERT_EQ(read.status, 0) << read.err;
  const json runs = json::parse(read.out);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].at("name"), "out");
  EXPECT_EQ(runs[0].at("status"), "FINISHED");
  EXPECT_EQ(runs[0].at("parameters").at("training.max_steps"), "4");
  expect_same(runs[0].at("metrics"), expected_metrics(place));
}

// The same run, without a gap and without a step that is there twice, also where the first one died behind its snapshot.
TEST(Mlflow, OfAResumedRunGoesOn) {
  const Workplace place;
  const Words saves = kQuick + Words{"snapshot.every_steps=2"};
  ASSERT_EQ(place.train(saves + Words{"training.max_steps=2"}).status, 0);
  const std::vector<std::string> first = runs_in(place.file("out/mlruns"));
  ASSERT_EQ(first.size(), 1u);
  const std::string loss = TemporaryFolder::read(first[0] + "/metrics/loss");
  place.folder().write("out/mlruns/0/" + fs::path(first[0]).filename().string() + "/metrics/loss",
                       loss + "1795681157138 9.5 3\n1795681157139 9.5 1");
  ASSERT_EQ(place.train(saves + Words{"training.max_steps=6"}).status, 0);
  EXPECT_EQ(runs_in(place.file("out/mlruns")), first);
  const json expected = expected_metrics(place);
  EXPECT_EQ(expected.at("loss").size(), 6u);
  expect_same(read_metrics(first[0]), expected);
  EXPECT_EQ(TemporaryFolder::read(first[0] + "/params/training.max_steps"), "6");
}

TEST(Mlflow, OfASecondRunBeginsAnew) {
  const Workplace place;
  const Words apart = kQuick + Words{"training.max_steps=2", "logging.mlflow_dir=shared"};
  for (const char* output : {"output_dir=a", "output_dir=b", "output_dir=a"})
    ASSERT_EQ(place.train(apart + Words{output}).status, 0);
  EXPECT_FALSE(fs::exists(place.file("a/mlruns")));
  const std::vector<std::string> runs = runs_in(place.file("shared"));
  ASSERT_EQ(runs.size(), 3u);
  for (const std::string& run : runs) EXPECT_EQ(read_metrics(run).at("loss").size(), 2u);
}

TEST(Mlflow, RefusesWhatHasNoMeaningOrNoPlace) {
  const Workplace place;
  const Finished inert = place.train({"logging.mlflow_dir=a"});
  EXPECT_EQ(inert.status, 2);
  EXPECT_NE(inert.err.find("logging.mlflow_dir has no effect"), std::string::npos) << inert.err;
  const Finished nowhere = place.train({"logging.report_to=mlflow", "logging.mlflow_dir=c.yaml/a"});
  EXPECT_EQ(nowhere.status, 6);
  EXPECT_NE(nowhere.err.find("logging.mlflow_dir must be a folder"), std::string::npos) << nowhere.err;
}

// How a run has ended, in MLflow's numbers.
TEST(MlflowRun, SaysHowItEnded) {
  const TemporaryFolder folder;
  std::vector<std::string> runs;
  const auto begin = [&] {
    auto run = std::make_unique<MlflowRun>(folder.file("store"), folder.file("out/"),
                                           std::map<std::string, std::string>{{"a.b", "1"}});
    runs.push_back(run->path());
    return run;
  };
  auto running = begin();
  EXPECT_EQ(status_of(runs[0]), 1);
  begin()->complete();
  EXPECT_EQ(status_of(runs[1]), 3);
  EXPECT_THROW(
      {
        const auto run = begin();
        throw std::runtime_error("a failure");
      },
      std::runtime_error);
  EXPECT_EQ(status_of(runs[2]), 4);
  begin();
  EXPECT_EQ(status_of(runs[3]), 5);
}

TEST(MlflowRun, GoesBackAndIsReadWhileItIsWritten) {
  const TemporaryFolder folder;
  MlflowRun run(folder.file("store"), folder.file("out"), {});
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE(run.write(step, std::array{Scalar{"loss", 0.1 * step}}));
    EXPECT_EQ(read_metrics(run.path()).at("loss").size(), static_cast<std::size_t>(step));
  }
  ASSERT_TRUE(run.write(3, std::array{Scalar{"eval_loss", -std::numeric_limits<double>::infinity()}}));
  EXPECT_EQ(read_metrics(run.path()).at("eval_loss")[0][1].get<double>(),
            -std::numeric_limits<double>::infinity());
  run.flush();
  run.go_back_to(2);
  EXPECT_EQ(read_metrics(run.path()), json::parse(R"({"loss": [[1, 0.1], [2, 0.2]]})"));
  ASSERT_TRUE(run.write(3, std::array{Scalar{"loss", 7.0}}));
  EXPECT_EQ(read_metrics(run.path()), json::parse(R"({"loss": [[1, 0.1], [2, 0.2], [3, 7.0]]})"));
  run.go_back_to(0);
  EXPECT_EQ(read_metrics(run.path()).size(), 0u);
}

}  // namespace
}  // namespace recollect::test::mlflow_test
