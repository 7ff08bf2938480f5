// What estimates and reports say of each layer is what the plan decides, counted value by value.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/process.h"
#include "tests/launch/report_harness.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::layer_choices_test {
namespace {

using nlohmann::json;

Config planned(const Words& words) {
  Config config = read_config_text("test.yaml", kReportYaml, words);
  resolve_planned_world(config);
  return config;
}

uint64_t bytes_of(const Words& words) {
  const Config config = planned(words);
  return PlannedRank(config, 0, 0).require_plan(config).program.predicted().arena_bytes();
}

// Between what modes full and none take.
Words half_budget(const Words& words) {
  const uint64_t full = bytes_of(words + Words{ac("mode=full")}), none = bytes_of(words);
  return words + Words{ac("mode=auto"), ac(fmt::format("memory_budget={}", (full + none) / 2))};
}

// Of the layers that a text such as "0-2, 4" names.
std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t used = 0;
    const int first = std::stoi(text.substr(at), &used);
    at += used;
    int last = first;
    if (at < text.size() && text[at] == '-') {
      last = std::stoi(text.substr(++at), &used);
      at += used;
    }
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    at += 2;
  }
  return numbers;
}

TEST(LayerChoices, CountThePlanLayerByLayer) {
  const Config config = planned(half_budget(
      {"model.n_layer=4", "parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"}));
  const PlannedTraining training = plan_training(config, 0, 0);
  const Plan& plan = training.training.checkpointed.plan;
  std::map<int, std::map<std::string, int64_t>> expected, counted;
  for (const auto& [name, decision] : plan.values)
    if (name.starts_with("layer")) ++expected[std::stoi(name.substr(5))][word_of(decision)];
  for (const LayerChoices& one : choices_by_layer(config, plan, training.training.program.graph))
    for (int layer : numbers_of(one.layers)) EXPECT_TRUE(counted.emplace(layer, one.values).second);
  EXPECT_EQ(counted, expected);
  EXPECT_EQ(counted.size(), 4u);
}

TEST(LayerChoices, AreAFewLines) {
  std::vector<LayerChoices> choices;
  for (int i = 0; i < 9; ++i) choices.push_back({std::to_string(i), {{"device", i}, {"recompute", 9 - i}}});
  const auto lines = layer_sentences(choices);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[1].first + ": " + lines[1].second, "layer 1: 1 value on the device, 8 recomputed");
  EXPECT_EQ(lines[5].second, "in 4 more ways; `recollect explain` names every value");
  choices.resize(6);
  EXPECT_EQ(layer_sentences(choices).back().first, "layer 5");
}

// The same lines in the estimate, and in the tables, the JSON and the page of every rank of the run.
TEST(LayerChoices, AreSaidOfEveryRank) {
  const Words words = half_budget({"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"});
  const Workplace place;
  place.folder().write("run.yaml", kReportYaml);
  const Finished text = place.recollect(Words{"estimate", "run.yaml"} + words),
                 numbers = place.recollect(Words{"estimate", "run.yaml", "--json"} + words),
                 run = place.recollect(Words{"train", "run.yaml", "output_dir=out", "logging.verbose=true"} +
                                       words);
  ASSERT_EQ(numbers.status, 0) << numbers.err;
  ASSERT_EQ(run.status, 0) << run.err;
  std::vector<LayerChoices> choices;
  const json document = json::parse(numbers.out);
  for (const json& one : document.at("layers")) choices.push_back({one.at("layers"), one.at("values")});
  ASSERT_GT(choices.size(), 1u);
  const std::string page = TemporaryFolder::read(place.file("out/report.html"));
  for (const auto& [layers, sentence] : layer_sentences(choices)) {
    EXPECT_NE(text.out.find(fmt::format("\n{}: {}\n", layers, sentence)), std::string::npos) << text.out;
    EXPECT_EQ(times_in(run.out, fmt::format("rank 0, {}: {}\n", layers, sentence)), 2) << "start and end";
    for (int rank : {0, 1}) {
      const std::string path = place.file(fmt::format("out/memory.rank{}.json", rank));
      const json said = json::parse(TemporaryFolder::read(path)).at("activation_checkpointing"),
                 line{{"name", layers}, {"sentence", sentence}};
      EXPECT_NE(std::find(said.begin(), said.end(), line), said.end()) << said;
    }
    EXPECT_EQ(times_in(page, sentence), 2) << "of both ranks";
  }
  for (const std::string& out : {text.out, run.out, page})
    EXPECT_NE(out.find("one MiB more would save at most "), std::string::npos) << "the marginal price\n"
                                                                               << out;
}

TEST(LayerChoices, OfANamedModeGoWithoutSaying) {
  EXPECT_TRUE(estimate(planned({ac("mode=full")}), Ranks::kFirst).layers.empty());
}

}  // namespace
}  // namespace recollect::test::layer_choices_test
