// The best evaluation, the model that is kept of it, and the end of a run that gets no better: also of a run that goes on
// from a snapshot.
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/train/best_evaluation.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"

namespace recollect::test::best_model_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Config judging(const std::string& metric, int64_t patience, double threshold) {
  Config config;
  config.evaluation.every_steps = 1;
  config.evaluation.metric_for_best_model = metric;
  config.evaluation.early_stopping_patience = patience;
  config.evaluation.early_stopping_threshold = threshold;
  return config;
}

struct Look {
  double value;
  bool is_best;
  int64_t not_better;
};

// As EarlyStoppingCallback of Transformers 5.24 and its Trainer have judged the same numbers.
TEST(BestEvaluation, IsThatOfTransformers) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto expect = [](BestSoFar& best, std::initializer_list<Look> looks) {
    int64_t step = 0;
    for (const auto& [value, is_best, not_better] : looks) {
      EXPECT_EQ(best.look(value, ++step), is_best) << step;
      EXPECT_EQ(best.state().not_better, not_better) << step;
    }
  };
  BestSoFar loss(judging("loss", 3, 0.1));
  // 1.95 is better than 2, and not by a tenth: it is the best from then on, and patience goes on.
  expect(loss, {{3, true, 0}, {2, true, 0}, {2, false, 1}, {1.95, true, 2}});
  EXPECT_FALSE(loss.patience_is_over());
  expect(loss, {{1.86, true, 3}});
  EXPECT_TRUE(loss.patience_is_over());
  expect(loss, {{1.7, true, 0}, {kNan, false, 1}});
  EXPECT_EQ(loss.state().value, 1.7);
  BestSoFar accuracy(judging("accuracy", 2, 0));
  expect(accuracy, {{0.5, true, 0}, {0.4, false, 1}, {0.6, true, 0}, {0.6, false, 1}, {0.1, false, 2}});
  EXPECT_EQ(accuracy.state(), (BestEvaluation{"accuracy", 3, 0.6, 2}));
  BestSoFar nothing(judging("loss", 0, 0));
  EXPECT_FALSE(nothing.look(1, 1));
  EXPECT_EQ(nothing.state(), BestEvaluation());
}

TEST(BestEvaluation, OfAnotherMetricIsForgotten) {
  const BestEvaluation before{"loss", 7, 1.5, 1};
  BestSoFar same(judging("loss", 2, 0)), other(judging("perplexity", 2, 0));
  same.restore(before);
  other.restore(before);
  EXPECT_EQ(same.state(), before);
  EXPECT_EQ(other.state(), BestEvaluation());
}

TEST(BestEvaluation, KeysWithoutEffectSayWhy) {
  const std::string evaluated = kLeast + "evaluation: {every_steps: 10, batches: 1, ";
  EXPECT_EQ(refusal(kLeast + "checkpoint: {save_best_model: true}\n"),
            "c.yaml:2:31: checkpoint.save_best_model has no effect with evaluation.every_steps 0: nothing is "
            "evaluated");
  EXPECT_EQ(
      refusal(evaluated + "metric_for_best_model: perplexity}\n"),
      "c.yaml:2:66: evaluation.metric_for_best_model has no effect with checkpoint.save_best_model false "
      "and evaluation.early_stopping_patience 0: nothing depends on which evaluation is the best");
  EXPECT_EQ(refusal(evaluated + "early_stopping_threshold: 0.5}\n"),
            "c.yaml:2:69: evaluation.early_stopping_threshold has no effect with "
            "evaluation.early_stopping_patience 0: no evaluation ends the run");
  EXPECT_EQ(
      refusal(evaluated + "metric_for_best_model: accurate, early_stopping_patience: 2}\n"),
      "c.yaml:2:66: evaluation.metric_for_best_model: expected one of loss, perplexity, accuracy, f1, "
      "matthews_correlation, mse, pearson, spearmanr, precision, recall, exact_match, found 'accurate'; did "
      "you mean 'accuracy'?");
  const Config config =
      accepted(evaluated + "metric_for_best_model: eval_perplexity, early_stopping_patience: 9}\n");
  EXPECT_EQ(config.evaluation.metric_for_best_model, "perplexity");
  EXPECT_EQ(
      config.unreached.at("evaluation.early_stopping_patience"),
      "no effect with training.max_steps 100 and evaluation.every_steps 10: no step would come after so many "
      "evaluations");
}

// A rate that rises for ever: the loss of what is evaluated falls, and then rises.
const Words kRises = {"training.max_steps=16",    "optimizer.learning_rate=4", "scheduler.warmup_steps=16",
                      "evaluation.every_steps=1", "evaluation.batches=2",      "memory_report.at=[]",
                      "profiling.step=0",         "model.resid_pdrop=0",       "optimizer.max_grad_norm=1",
                      "logging.steps=100"};
const Words kKeeps =
    kRises + Words{"checkpoint.save_best_model=true", "evaluation.early_stopping_patience=3"};
const Words kSnapshots = {"snapshot.every_steps=1", "snapshot.keep=99"};

// Behind which step the evaluation was the best, and behind which the third one in a row was not better.
struct Course {
  int64_t best = 0, end = 0;
};

Course course_of(const std::vector<json>& metrics) {
  Course course;
  double least = 0;
  for (const json& line : metrics) {
    if (!line.contains("eval_loss")) continue;
    const int64_t step = line["step"];
    if (course.best == 0 || line["eval_loss"] < least) course.best = step, least = line["eval_loss"];
    if (step == course.best + 3) return {course.best, step};
  }
  return course;
}

std::string read(const Workplace& place, const std::string& name) {
  return TemporaryFolder::read(place.file(name));
}

std::vector<std::pair<int64_t, double>> evaluations(const Workplace& place, const std::string& output) {
  std::vector<std::pair<int64_t, double>> losses;
  for (const json& line : place.metrics(output))
    if (line.contains("eval_loss")) losses.emplace_back(line["step"], line["eval_loss"]);
  return losses;
}

TEST(BestModel, IsThatOfTheStepAndTheRunStopsBehindIt) {
  const Workplace place;
  ASSERT_EQ(place.train(kRises + Words{"output_dir=whole"}).status, 0);
  const auto [best, end] = course_of(place.metrics("whole"));
  ASSERT_GT(best, 2);
  ASSERT_GT(end, best);
  ASSERT_LT(end, 16);
  const Finished kept = place.train(kKeeps + kSnapshots);
  ASSERT_EQ(kept.status, 0) << kept.err;
  const std::string at = std::to_string(best), stop = std::to_string(end);
  EXPECT_NE(kept.out.find("stopped after step " + stop + " of 16: 3 evaluations in a row"), std::string::npos)
      << kept.out;
  EXPECT_NE(kept.out.find("; the best model, of step " + at + " with loss"), std::string::npos) << kept.out;
  EXPECT_EQ(evaluations(place, "out").back().first, end);
  EXPECT_TRUE(fs::exists(place.file("out/snapshots/step-000000" + std::string(end < 10 ? "0" : "") + stop)));
  const json results = json::parse(read(place, "out/train_results.json"));
  EXPECT_EQ(results["best_step"], best);
  EXPECT_EQ(results["metric_for_best_model"], "loss");
  EXPECT_EQ(results["stopped_early"], true);
  const json evaluated = json::parse(read(place, "out/best_model/evaluation.json"));
  EXPECT_EQ(evaluated["step"], best);
  EXPECT_EQ(evaluated["eval_loss"], results["best_metric"]);
  EXPECT_TRUE(evaluated.contains("perplexity"));
  // The weights are those of a run that ends there.
  const Finished until = place.train(kRises + Words{"training.max_steps=" + at, "checkpoint.save_model=true",
                                                    "scheduler.warmup_steps=16", "output_dir=until"});
  ASSERT_EQ(until.status, 0) << until.err;
  for (const char* name : {"/model.safetensors", "/config.json"})
    EXPECT_EQ(read(place, std::string("out/best_model") + name), read(place, std::string("until") + name))
        << name;

  // A run that goes on from behind any step ends as the whole one, and knows what was best before.
  for (const int64_t from : {best - 1, best, best + 1}) {
    const std::string number = std::to_string(from),
                      snapshot = "out/snapshots/step-" + std::string(8 - number.size(), '0') + number,
                      output = "from" + number;
    const Finished resumed =
        place.train(kKeeps + kSnapshots + Words{"resume=" + snapshot, "output_dir=" + output});
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_NE(resumed.out.find("stopped after step " + stop), std::string::npos) << resumed.out;
    EXPECT_EQ(read(place, output + "/best_model/model.safetensors") ==
                  read(place, "out/best_model/model.safetensors"),
              from < best);
    EXPECT_EQ(times_in(resumed.err, output + "/best_model does not hold the model of step"), 1)
        << resumed.err;
  }
  const Finished again = place.train(kKeeps + kSnapshots);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("nothing is left to train"), std::string::npos) << again.out;
  EXPECT_EQ(again.err.find("does not hold"), std::string::npos) << again.err;
}

TEST(BestModel, IsTheSameOfSeveralRanks) {
  const Workplace place;
  const Words ranks = {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                       "training.max_steps=3", "evaluation.early_stopping_patience=0"};
  ASSERT_EQ(place.train(kKeeps + ranks).status, 0);
  const json evaluated = json::parse(read(place, "out/best_model/evaluation.json"));
  EXPECT_EQ(evaluated["step"], course_of(place.metrics()).best);
  EXPECT_GT(fs::file_size(place.file("out/best_model/model.safetensors")), 1000u);
}

TEST(BestModel, ThatCannotBeSavedEndsTheRunWhenAllElseIsSaved) {
  const Words words = kKeeps + Words{"training.max_steps=2", "checkpoint.save_model=true",
                                     "evaluation.early_stopping_patience=0"};
  const Workplace place;
  fs::create_directories(place.file("out/best_model/model.safetensors"));
  const Finished full = place.train(words);
  EXPECT_EQ(full.status, 6) << full.err;
  EXPECT_NE(full.err.find("the model of step 1, the best so far, could not be saved: "), std::string::npos)
      << full.err;
  EXPECT_NE(full.err.find("the run is done, and the best model, that of step 2, could not be saved"),
            std::string::npos)
      << full.err;
  EXPECT_TRUE(fs::exists(place.file("out/model.safetensors")));
  fs::remove_all(place.file("out/best_model"));
  fs::create_directories(place.file("elsewhere"));
  fs::create_directory_symlink(place.file("elsewhere"), place.file("out/best_model"));
  const Finished linked = place.train(words);
  EXPECT_EQ(linked.status, 6) << linked.err;
  EXPECT_NE(linked.err.find("out/best_model is a link"), std::string::npos) << linked.err;
}

TEST(BestModel, IsOfAMetricThatIsMeasured) {
  const Workplace place;
  const Finished other = place.train(kKeeps + Words{"evaluation.metric_for_best_model=accuracy"});
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("evaluation.metric_for_best_model: no evaluation of this run reports accuracy"),
            std::string::npos)
      << other.err;
  EXPECT_NE(other.err.find("these say loss, perplexity"), std::string::npos) << other.err;
  EXPECT_FALSE(fs::exists(place.file("out/metrics.jsonl")));
}

}  // namespace
}  // namespace recollect::test::best_model_test
