// What a run leaves in its output folder: enough to run again to the same bits, and numbers that add up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "launch/config/read.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::outputs_test {
namespace {

using nlohmann::json;

const Words kTwoRanks = {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};

// The metrics without what a clock decides.
std::vector<json> timeless(std::vector<json> metrics) {
  for (json& step : metrics) {
    step.erase("tokens_per_second");
    step.erase("step_seconds");
  }
  return metrics;
}

TEST(Outputs, TheResolvedConfigurationIsTheRun) {
  const Workplace place;
  ASSERT_EQ(place.train(kTwoRanks + Words{"checkpoint.save_model=true", "training.max_steps=3"}).status, 0);
  const std::string resolved = place.file("out/config.resolved.yaml");
  const Config again = read_config(resolved);
  const std::string text = test::TemporaryFolder::read(resolved);
  EXPECT_EQ(dump_resolved(again), text.substr(text.find('\n') + 1)) << "behind what it was recorded with";
  EXPECT_EQ(again.parallelism.data_parallel_size, 1);
  const Finished second = place.recollect({"train", "out/config.resolved.yaml", "output_dir=again"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(second.err.find("recorded with"), std::string::npos) << second.err;
  ASSERT_EQ(place.metrics().size(), 3u);
  EXPECT_EQ(timeless(place.metrics("out")), timeless(place.metrics("again")));
  for (const char* name : {"/model.safetensors", "/config.json"})
    EXPECT_EQ(test::TemporaryFolder::read(place.file(std::string("out") + name)),
              test::TemporaryFolder::read(place.file(std::string("again") + name)))
        << name;
}

TEST(Outputs, MetricsHaveTheirKeysAndDigits) {
  const Workplace place;
  const Words words = {"training.max_steps=4", "scheduler.name=linear", "scheduler.warmup_steps=2"};
  ASSERT_EQ(place.train(words).status, 0);
  const std::vector<json> metrics = place.metrics();
  ASSERT_EQ(metrics.size(), 4u);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const json& step = metrics[i];
    for (const char* key :
         {"step", "loss", "grad_norm", "learning_rate", "tokens", "tokens_per_second", "step_seconds"})
      EXPECT_TRUE(step.contains(key)) << key;
    EXPECT_EQ(step["step"], i + 1);
    EXPECT_EQ(step["tokens"], 4 * 8);
    EXPECT_GT(step["grad_norm"], 0.0);
    EXPECT_EQ(step["samples"].get<int64_t>() * step["sequence_length"].get<int64_t>() % 8, 0);
    EXPECT_GT(step["memory_peak"], 0);
    EXPECT_LE(step["memory_peak"], step["device_memory"]);
    EXPECT_EQ(step["memory_peak_phase"], "forward") << "in the head, before gradients";
    const double rate = step["tokens_per_second"], seconds = step["step_seconds"];
    EXPECT_NEAR(rate * seconds, 32.0, 1e-3);
    EXPECT_EQ(step["learning_rate"], std::vector<double>({0, 0.005, 0.01, 0.005})[i]);
  }
  // A double needs 17 digits; what reads back must be the number that was computed.
  const Trained same =
      train(kTinyYaml, {"training.max_steps=4", "scheduler.name=linear", "scheduler.warmup_steps=2"});
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i]["loss"].get<double>(), same.steps[i].loss);
    EXPECT_EQ(metrics[i]["grad_norm"].get<double>(), same.steps[i].grad_norm);
  }
  std::size_t most_digits = 0;
  const std::string text = test::TemporaryFolder::read(place.file("out/metrics.jsonl")), key = "\"loss\": ";
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    const std::string number = text.substr(at + key.size(), text.find(',', at) - at - key.size());
    most_digits = std::max<std::size_t>(most_digits, std::count_if(number.begin(), number.end(), ::isdigit));
  }
  EXPECT_EQ(most_digits, 17u) << text;
}

// One rank's ledger: categories add up to their phase's total, and the highest total is the peak.
void expect_sums(const json& ledger) {
  int64_t peak = 0;
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    int64_t sum = 0;
    for (const char* category :
         {"parameters", "gradients", "optimizer", "activations", "workspace", "communication", "input"})
      sum += ledger.at(phase).at(category).get<int64_t>();
    EXPECT_EQ(sum, ledger.at(phase).at("total").get<int64_t>()) << phase;
    peak = std::max(peak, sum);
  }
  EXPECT_EQ(peak, ledger.at("peak").get<int64_t>());
  EXPECT_LE(peak, ledger.at("arena").get<int64_t>());
}

TEST(Outputs, MemoryOfEveryRankIsWhatWasPredicted) {
  const Workplace place;
  const Finished finished =
      place.train({"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=4",
                   "parallelism.sequence_parallel=true", "logging.verbose=true"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  for (int rank = 0; rank < 4; ++rank) {
    const json memory = json::parse(
        test::TemporaryFolder::read(place.file("out/memory.rank" + std::to_string(rank) + ".json")));
    EXPECT_EQ(memory.at("rank"), rank);
    EXPECT_EQ(memory.at("predicted"), memory.at("measured"));
    EXPECT_EQ(memory.at("step").at("steps"), 2);
    EXPECT_GT(memory.at("step").at("measured").at("step"), 0.0);
    EXPECT_GT(memory.at("step").at("predicted").at("step"), 0.0);
    EXPECT_EQ(memory.at("step").at("measured").at("exposed_for").size(),
              static_cast<std::size_t>(kStreamCount));
    expect_sums(memory.at("measured"));
    EXPECT_GT(memory.at("measured").at("backward").at("activations"), 0);
    EXPECT_GT(memory.at("measured").at("optimizer").at("optimizer"), 0);
    EXPECT_NE(finished.out.find("rank " + std::to_string(rank)), std::string::npos) << finished.out;
  }
  EXPECT_FALSE(std::filesystem::exists(place.file("out/memory.rank4.json")));
  // Of the first rank, every phase with what was predicted beside what was measured; and the step likewise.
  for (const char* text :
       {"rank 0, MiB ", "predicted    measured   predicted    measured   predicted    measured",
        "\nloaded, measured ", " bytes when the model is loaded, before the first step: parameters ",
        "\nstep: measured ", "\nexposed waits a step: measured "})
    EXPECT_NE(finished.out.find(text), std::string::npos) << text << finished.out;
  EXPECT_EQ(finished.out.find("rank 1, MiB "), std::string::npos) << finished.out;
}

TEST(Outputs, NothingIsWrittenThatWasNotAskedFor) {
  const Workplace place;
  ASSERT_EQ(place.train({"training.max_steps=1"}).status, 0);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(place.file("out")))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"config.resolved.yaml", "memory.rank0.json", "metrics.jsonl",
                                      "plan.yaml", "report.html", "trace.rank0.json", "train_results.json"}));
}

TEST(Outputs, TheClosingSummaryIsTheMeanOfTheSteps) {
  const Workplace place;
  const Finished finished = place.train(kTwoRanks + Words{"training.max_steps=5"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const json results = json::parse(test::TemporaryFolder::read(place.file("out/train_results.json")));
  double loss = 0, seconds = 0;
  for (const json& step : place.metrics()) {
    loss += step.at("loss").get<double>() / 5;
    seconds += step.at("step_seconds").get<double>();
  }
  EXPECT_NEAR(results.at("train_loss").get<double>(), loss, 1e-12);
  EXPECT_EQ(results.at("train_steps"), 5);
  EXPECT_EQ(results.at("train_samples"), 5 * 4);
  const double runtime = results.at("train_runtime");
  EXPECT_GE(runtime, seconds * 0.999);
  EXPECT_NEAR(results.at("train_samples_per_second").get<double>() * runtime, 20, 1e-9);
  EXPECT_NEAR(results.at("train_steps_per_second").get<double>() * runtime, 5, 1e-9);
  EXPECT_NEAR(results.at("train_tokens_per_second").get<double>() * runtime, 5 * 4 * 8, 1e-9);
  // The fullest rank's, which every rank has written by itself too.
  uint64_t peak = 0, resident = 0;
  for (const char* rank : {"0", "1"}) {
    const json memory =
        json::parse(test::TemporaryFolder::read(place.file(std::string("out/memory.rank") + rank + ".json")));
    peak = std::max(peak, memory.at("measured").at("peak").get<uint64_t>());
    resident = std::max(resident, memory.at("resident").at("measured").get<uint64_t>());
  }
  EXPECT_EQ(results.at("device_memory_peak"), peak);
  for (const json& step : place.metrics())
    EXPECT_EQ(step.at("memory_peak"), peak) << "all steps have one length";
  // What the reports found, or more, as they take memory too; the system counts its peak in larger portions.
  EXPECT_GT(results.at("resident_memory_peak").get<double>(), 0.98 * static_cast<double>(resident));
  EXPECT_LT(results.at("resident_memory_peak").get<double>(), 3.0 * static_cast<double>(resident));
  EXPECT_EQ(results.at("device_memory_predicted"), peak);
  for (const char* name :
       {"\ntrained 5 steps in ", " samples/s, ", " steps/s\n", "\nstart: ", " to the first step, of which ",
        "\nmemory: arena peak ", "; resident peak ", "\nstep: ", " waiting for peers; ",
        "\nreport: out/report.html, or `recollect report out`\n"})
    EXPECT_NE(finished.out.find(name), std::string::npos) << finished.out;
}

TEST(Outputs, WithoutStepsThereIsNothingToSum) {
  const Workplace place;
  const Finished finished = place.recollect(
      {"train", "c.yaml", "training.max_steps=0", "evaluation.every_steps=1", "evaluation.batches=1"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(place.file("out/train_results.json")));
  EXPECT_EQ(finished.out.find("train_loss"), std::string::npos) << finished.out;
}

TEST(Outputs, GradientsAreOfTheStepThatWasAskedFor) {
  const Workplace place;
  const Words words = {"training.max_steps=3", "debug.dump_gradients=g.safetensors", "debug.dump_step=2"};
  ASSERT_EQ(place.train(words).status, 0);
  const Trained same = train(
      kTinyYaml, {"training.max_steps=3", "debug.dump_step=2", "debug.dump_gradients=" + place.file("same")});
  const Trained first = train(kTinyYaml, {"training.max_steps=3"});
  const Tensors dumped = read_tensors(place.file("g.safetensors"), "");
  EXPECT_EQ(dumped.size(), 2 + 2 * 12 + 2u);
  EXPECT_EQ(largest_difference(dumped, same.gradients), 0);
  EXPECT_GT(largest_difference(dumped, first.gradients), 1e-3);
  // Before clipping: their norm is the one in the metrics.
  double squares = 0;
  for (const auto& [name, values] : dumped)
    for (const double value : values) squares += value * value;
  const double norm = place.metrics().at(1).at("grad_norm");
  EXPECT_GT(norm, 1.0);  // or clipping would not have changed them
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-12 * norm);
}

// A model that two ranks have trained and saved: Transformers loads it, and has the loss that we have on
// loading it.
TEST(Outputs, TransformersLoadsWhatWasSaved) {
  if (std::system("python3 -c 'import torch, transformers, safetensors' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "python3 has no torch, transformers and safetensors here";
  const std::string golden = std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/";
  const std::string batch = golden + "plain/batch.jsonl";
  const Workplace place;
  const Words data = {"data.format=jsonl",           "data.path=" + batch,
                      "data.shuffle=false",          "data.sequence_length=12",
                      "training.micro_batch_size=2", "training.global_batch_size=2"};
  const Finished first =
      place.train(kTwoRanks + data + Words{"checkpoint.save_model=true", "training.max_steps=3"});
  ASSERT_EQ(first.status, 0) << first.err;
  place.folder().write("loaded.yaml",
                       "model: {pretrained: out, resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0}\n"
                       "device: {backend: reference}\n"
                       "training: {precision: fp64, max_steps: 1}\noutput_dir: loaded\n");
  const Finished loaded = place.recollect(Words{"train", "loaded.yaml"} + data);
  ASSERT_EQ(loaded.status, 0) << loaded.err;
  const double loss = place.metrics("loaded").at(0).at("loss");
  EXPECT_NE(loss, place.metrics().at(0).at("loss").get<double>());
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.17g", loss);
  const Finished checked = Process({"python3", golden + "check_saved.py", "out", "--batch", batch, "--loss",
                                    digits, "--tolerance", "1e-10"},
                                   place.folder().path())
                               .wait(Workplace::kBound);
  EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
}

}  // namespace
}  // namespace recollect::test::outputs_test
