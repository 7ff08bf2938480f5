// A run that counts epochs: how many steps they are, to the sample; and that it trains as one that counts those steps.
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/config/epochs.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"

namespace recollect::test::epochs_test {
namespace {

using nlohmann::json;

TEST(Epochs, AreTheFewestStepsThatSeeAllSamples) {
  for (int64_t epochs = 1; epochs <= 3; ++epochs)
    for (int64_t samples = 1; samples <= 30; ++samples)
      for (int64_t batch = 1; batch <= 9; ++batch) {
        int64_t steps = 1;
        while (steps * batch < epochs * samples) ++steps;
        EXPECT_EQ(steps_of_epochs(static_cast<double>(epochs), samples, batch), steps)
            << epochs << " x " << samples << " / " << batch;
      }
}

// Products of the binary numbers would be a step too many: 1.1 x 10 is 11.000000000000002 there.
TEST(Epochs, AreTheDecimalNumberThatWasWritten) {
  EXPECT_EQ(steps_of_epochs(1.1, 10, 1), 11);
  for (int64_t hundredths = 1; hundredths < 400; ++hundredths)
    for (const int64_t samples : {10, 100, 700, 1001})
      EXPECT_EQ(steps_of_epochs(static_cast<double>(hundredths) / 100, samples, 7),
                (hundredths * samples + 699) / 700)
          << hundredths << " " << samples;
  EXPECT_EQ(steps_of_epochs(2.5, 10, 4), 7);
  EXPECT_EQ(steps_of_epochs(1e-6, 1, 5), 1);
  EXPECT_EQ(steps_of_epochs(0.1, int64_t{3} << 30, 1), 322122548);
  EXPECT_EQ(steps_of_epochs(1e6, int64_t{1} << 40, 1), Config::Training::kOpenSteps);
}

// After the step that sees the last sample of each so many epochs; the batches before it may have been skipped.
TEST(Epochs, EndAfterTheStepThatSeesTheirLastSample) {
  for (const int64_t tenths : {1, 3, 5, 7, 10, 15, 20})
    for (int64_t samples = 1; samples <= 25; ++samples)
      for (int64_t batch = 1; batch <= 7; ++batch)
        for (int64_t step = 1; step * batch <= 3 * samples; ++step) {
          const auto ends_within = [&](int64_t seen) { return seen * 10 / (tenths * samples); };
          EXPECT_EQ(is_occasion(0, static_cast<double>(tenths) / 10, {step, step * batch, batch, samples}),
                    ends_within(step * batch) > ends_within((step - 1) * batch))
              << tenths << " " << samples << " " << batch << " " << step;
        }
  EXPECT_TRUE(is_occasion(0, 0.333333333333, {2, 8, 4, 12}));
  EXPECT_TRUE(is_occasion(0, 0.333333333333, {3, 12, 4, 12}));
  EXPECT_FALSE(is_occasion(0, 1, {3, 12, 4, 0})) << "data that never ends";
  EXPECT_TRUE(is_occasion(3, 0, {6, 0, 0, 0}));
}

const std::string kText = "data: {path: x}\n";

TEST(Epochs, OrStepsLieBetween) {
  EXPECT_EQ(refusal(kText + "evaluation: {path: x, every_steps: 2, every_epochs: 1}\n"),
            "c.yaml:2:53: evaluation.every_epochs and evaluation.every_steps are both given; give one");
  EXPECT_EQ(refusal(kText + "snapshot: {every_epochs: 1e-9}\n"),
            "c.yaml:2:26: snapshot.every_epochs 1e-09: the least is 1e-06");
  EXPECT_EQ(refusal(kLeast + "logging: {every_epochs: 1}\n"),
            "c.yaml:2:25: logging.every_epochs: data.format random has no end; give logging.steps");
  const Config steps = accepted(kText + "snapshot: {every_epochs: 1}\n", {"snapshot.every_steps=5"});
  EXPECT_EQ(steps.snapshot.every_steps, 5) << "the command line wins";
  EXPECT_EQ(steps.snapshot.every_epochs, 0);
  const Config epochs = accepted(kText + "logging: {steps: 3}\n", {"logging.every_epochs=0.5"});
  EXPECT_EQ(epochs.logging.steps, 0);
  EXPECT_EQ(epochs.logging.every_epochs, 0.5);
  EXPECT_TRUE(
      accepted(kText + "evaluation: {path: x, every_epochs: 1}\ncheckpoint: {save_best_model: true}\n")
          .compares_evaluations());
}

TEST(Epochs, OrStepsAreGiven) {
  EXPECT_EQ(refusal(kText + "training: {epochs: 3, max_steps: 10}\n"),
            "c.yaml:2:20: training.epochs and training.max_steps are both given; give one");
  EXPECT_EQ(
      refusal(kText, {"training.epochs=3", "training.max_steps=10"}),
      "command line: training.epochs=3: training.epochs and training.max_steps are both given; give one");
  EXPECT_EQ(refusal(kLeast + "training: {epochs: 1}\n"),
            "c.yaml:2:20: training.epochs: data.format random has no end; give data.samples, of an epoch, or "
            "training.max_steps");
  EXPECT_EQ(refusal(kText + "training: {epochs: 1e-7}\n"),
            "c.yaml:2:20: training.epochs 1e-07: the least is 1e-06");
  EXPECT_EQ(refusal(kText + "training: {epochs: -1}\n"),
            "c.yaml:2:20: training.epochs: -1 is out of range; must be in [0, 1000000]");
  // The command line wins over the file, whichever of the two it names.
  const Config longer = accepted(kText + "training: {max_steps: 10}\n", {"training.epochs=0.5"});
  EXPECT_EQ(longer.training.epochs, 0.5);
  EXPECT_EQ(longer.training.max_steps, Config::Training::kOpenSteps);
  const Config shorter = accepted(kText + "training: {num_train_epochs: 3}\n", {"training.max_steps=7"});
  EXPECT_EQ(shorter.training.epochs, 0);
  EXPECT_EQ(shorter.training.max_steps, 7);
  EXPECT_EQ(accepted(kText + "training: {max_steps: 10}\n", {"training.epochs=0"}).training.max_steps, 10);
}

TEST(Epochs, StayInADumpUntilTheyAreCounted) {
  Config config = accepted(kText + "training: {epochs: 0.5, micro_batch_size: 4}\n");
  const std::string dump = dump_resolved(config);
  EXPECT_NE(dump.find("  # max_steps: epochs x samples / global_batch_size\n  epochs: 0.5\n"),
            std::string::npos);
  EXPECT_EQ(dump_resolved(accepted(dump)), dump);
  resolve_world(config, 1);
  complete_steps(config, 18);
  EXPECT_EQ(config.training.max_steps, 3);
  EXPECT_EQ(config.derived.at("training.max_steps"),
            "training.epochs 0.5 x 18 samples / training.global_batch_size");
  const std::string counted = dump_resolved(config);
  EXPECT_NE(counted.find("  max_steps: 3\n  epochs: 0\n"), std::string::npos);
  EXPECT_EQ(dump_resolved(accepted(counted)), counted);
}

TEST(Epochs, DecideWhatTheRunIsTooShortFor) {
  const auto counted = [](const std::string& more) {
    Config config = accepted(kText + "training: {epochs: 1, micro_batch_size: 4}\n" + more);
    EXPECT_TRUE(config.unreached.empty()) << "nobody knows yet";
    resolve_world(config, 1);
    complete_steps(config, 8);
    return config;
  };
  EXPECT_EQ(counted("").profiling.step, 2) << "the last of two";
  EXPECT_EQ(counted("numerics: {verify_every: 3}\n").unreached.at("numerics.verify_every"),
            "no effect with training.max_steps 2: the run has fewer steps");
  try {
    counted("memory_report: {at: [step:3]}\n");
    ADD_FAILURE() << "no step 3 is left to report";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "c.yaml:3:21: memory_report.at: step:3 is after the last step, training.max_steps 2");
  }
}

// Eleven lines, of which a step of two ranks with two micro-batches reads four: one epoch and a half is 17 samples.
class EpochRuns : public ::testing::Test {
 protected:
  EpochRuns() {
    std::string lines;
    for (int i = 0; i < 11; ++i) lines += "{\"input_ids\": [" + std::to_string(i) + ", 5, 7, 11]}\n";
    place_.folder().write("lines.jsonl", lines);
  }
  Finished train(const std::string& output, const Words& more) const {
    return place_.train(Words{"data.format=jsonl", "data.path=lines.jsonl",
                              "parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2",
                              "scheduler.name=linear", "memory_report.at=[]", "profiling.step=0",
                              "checkpoint.save_model=true", "output_dir=" + output} +
                        more);
  }
  std::vector<std::pair<double, double>> losses(const std::string& output) const {
    std::vector<std::pair<double, double>> losses;
    for (const json& step : place_.metrics(output)) losses.emplace_back(step["loss"], step["learning_rate"]);
    return losses;
  }
  std::string model(const std::string& output) const {
    return TemporaryFolder::read(place_.file(output + "/model.safetensors"));
  }

  const Workplace place_;
};

TEST_F(EpochRuns, AreRunsOfSoManySteps) {
  const Finished epochs = train("out", {"training.epochs=1.5", "snapshot.every_steps=2", "snapshot.keep=9"});
  ASSERT_EQ(epochs.status, 0) << epochs.err;
  EXPECT_NE(epochs.out.find("data: 11 samples; 5 steps are"), std::string::npos) << epochs.out;
  ASSERT_EQ(train("steps", {"training.max_steps=5"}).status, 0);
  EXPECT_EQ(losses("out").size(), 5u);
  EXPECT_EQ(losses("out"), losses("steps")) << "the rate falls until the last of them";
  EXPECT_EQ(model("out"), model("steps"));
  const Finished resumed =
      train("again", {"training.epochs=1.5", "snapshot.every_steps=2", "resume=out/snapshots/step-00000002"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("changed since"), std::string::npos) << resumed.err;
  EXPECT_EQ(model("again"), model("out"));
  EXPECT_NE(TemporaryFolder::read(place_.file("out/snapshots/step-00000004/manifest.json"))
                .find("max_steps: 5\\n  epochs: 0\\n"),
            std::string::npos);
}

// Eleven samples, four a step: epochs end in steps 3, 6 and 9.
TEST_F(EpochRuns, EvaluateSaveAndTellWhereEpochsEnd) {
  const Words words{"training.epochs=3",
                    "evaluation.every_epochs=1",
                    "evaluation.path=lines.jsonl",
                    "snapshot.every_epochs=1",
                    "snapshot.keep=9",
                    "logging.every_epochs=1",
                    "checkpoint.save_best_model=true"};
  const Finished first = train("out", words);
  ASSERT_EQ(first.status, 0) << first.err;
  std::vector<int> evaluated;
  for (const json& line : place_.metrics("out"))
    if (line.contains("eval_loss")) evaluated.push_back(line.at("step"));
  EXPECT_EQ(evaluated, (std::vector<int>{3, 6, 9}));
  for (int step = 1; step <= 9; ++step) {
    const bool ends = step % 3 == 0;
    EXPECT_EQ(std::filesystem::exists(place_.file("out/snapshots/step-0000000" + std::to_string(step))),
              ends);
    EXPECT_EQ(first.out.find("step " + std::to_string(step) + "/9  loss") != std::string::npos,
              ends || step == 1)
        << first.out;
  }
  EXPECT_TRUE(std::filesystem::exists(place_.file("out/best_model/model.safetensors")));
  ASSERT_EQ(train("again", words + Words{"resume=out/snapshots/step-00000003"}).status, 0);
  EXPECT_EQ(model("again"), model("out"));
  EXPECT_TRUE(std::filesystem::exists(place_.file("again/snapshots/step-00000006")));
}

// Of every step and evaluation, of what the run closes with, and of a run that goes on from a snapshot.
TEST_F(EpochRuns, AreCountedInWhatARunSays) {
  const Words words{"training.epochs=1.5",
                    "snapshot.every_steps=2",
                    "snapshot.keep=9",
                    "evaluation.every_steps=3",
                    "evaluation.format=jsonl",
                    "evaluation.path=lines.jsonl",
                    "logging.tensorboard_dir=events",
                    "logging.report_to=[jsonl,tensorboard]"};
  const Finished first = train("out", words);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("\ntrained 5 steps in "), std::string::npos) << first.out;
  EXPECT_NE(first.out.find(", to epoch 1.82: loss "), std::string::npos) << first.out;
  const std::vector<json> lines = place_.metrics("out");
  ASSERT_EQ(lines.size(), 5u + 2);
  for (const json& line : lines) EXPECT_NEAR(line.at("epoch"), line.at("step").get<double>() * 4 / 11, 1e-8);
  const json results = json::parse(TemporaryFolder::read(place_.file("out/train_results.json")));
  EXPECT_DOUBLE_EQ(results.at("epoch"), 20.0 / 11);
  int events = 0;
  for (const auto& file : std::filesystem::directory_iterator(place_.file("events")))
    events += times_in(TemporaryFolder::read(file.path().string()),
                       "\x0a\x05"
                       "epoch");
  EXPECT_EQ(events, 5 + 2) << "of each a tag of TensorBoard's";

  const Finished resumed = train("again", words + Words{"resume=out/snapshots/step-00000002"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("\ntrained 3 steps in "), std::string::npos) << resumed.out;
  EXPECT_NE(resumed.out.find(", to epoch 1.82: loss "), std::string::npos) << resumed.out;
  std::vector<double> epochs, again;
  for (std::size_t i = 2; i < lines.size(); ++i) epochs.push_back(lines[i].at("epoch"));
  for (const json& line : place_.metrics("again")) again.push_back(line.at("epoch"));
  EXPECT_EQ(again, epochs);
}

TEST_F(EpochRuns, OfDataWithoutAnEndAreNotSaid) {
  const Finished finished = place_.train({"training.max_steps=2"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out.find("epoch"), std::string::npos) << finished.out;
  EXPECT_FALSE(place_.metrics().at(0).contains("epoch"));
}

TEST_F(EpochRuns, AreProfiledAndEstimated) {
  const Finished profiled = place_.recollect(
      {"profile", "c.yaml", "data.format=jsonl", "data.path=lines.jsonl", "training.epochs=2", "--json"});
  EXPECT_EQ(profiled.status, 0) << profiled.err;
  EXPECT_TRUE(json::accept(profiled.out)) << profiled.out;
  EXPECT_EQ(place_
                .recollect({"estimate", "c.yaml", "data.path=nowhere", "model.vocab_size=256",
                            "data.format=text", "training.epochs=2"})
                .status,
            0);
}

}  // namespace
}  // namespace recollect::test::epochs_test
