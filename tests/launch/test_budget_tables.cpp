// estimate --policies and --pareto: every column and curve is what the run of that configuration would be, what is over
// the budget says so, and a plan is never slower than what it could have been instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "engine/core/byte_count.h"
#include "launch/config/read.h"
#include "launch/program/compare_budgets.h"
#include "launch/program/lengths.h"
#include "launch/report/budgets_chart.h"
#include "tests/launch/planned.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::budget_tables_test {
namespace {

using nlohmann::json;

const char* const kBudgetYaml = R"(
model: {type: gpt2, vocab_size: 24, n_positions: 24, n_embd: 32, n_layer: 4, n_head: 4}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 8, max_steps: 2}
data: {format: jsonl, path: lines.jsonl, sequence_length: 24, padding: longest, pad_to_multiple_of: 8}
)";

Config planned(const Words& words) { return test::planned(kBudgetYaml, words); }
uint64_t bytes_of(const Words& words) { return test::bytes_of(planned(words)); }

// Between what modes full and none take of the longest.
uint64_t some_budget(double share) {
  const uint64_t full = bytes_of({ac("mode=full")}), none = bytes_of({});
  return full + static_cast<uint64_t>(share * static_cast<double>(none - full));
}

std::string row_of(const std::string& table, const std::string& first_cell) {
  std::istringstream lines(table);
  for (std::string line, cell; std::getline(lines, line);)
    if (std::istringstream(line) >> cell && cell == first_cell) return line;
  ADD_FAILURE() << "no row of " << first_cell << " in\n" << table;
  return {};
}

TEST(Policies, AreOrderedInTimeAtEveryLength) {
  for (double share : {0.0, 0.5}) {
    const uint64_t bytes = some_budget(share);
    const std::vector<PolicyEstimate> columns = compare_policies(planned(budget(bytes)));
    ASSERT_GE(columns.size(), 5u);
    const auto &dynamic = columns[0], &fixed = columns[1], &layers = columns[2], &full = columns[3],
               &none = columns[4];
    EXPECT_EQ(dynamic.policy + fixed.policy + layers.policy + full.policy + none.policy,
              "dynamicstaticfixedfullnone");
    for (std::size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(fmt::format("length {} at {}", dynamic.lengths[i].length, share));
      EXPECT_EQ(dynamic.lengths[i].length, 8 * static_cast<int64_t>(i + 1));
      EXPECT_LE(none.lengths[i].step_seconds, dynamic.lengths[i].step_seconds);
      EXPECT_LE(dynamic.lengths[i].step_seconds, fixed.lengths[i].step_seconds);
      EXPECT_LE(fixed.lengths[i].step_seconds, full.lengths[i].step_seconds);
      EXPECT_LE(layers.lengths[i].step_seconds, full.lengths[i].step_seconds);
      for (const PolicyEstimate* within : {&dynamic, &fixed, &layers, &full})
        EXPECT_LE(within->lengths[i].arena_bytes, bytes) << within->policy;
      if (columns.size() > 5) {
        EXPECT_EQ(columns[5].policy, "dtr");
        EXPECT_LE(columns[5].lengths[i].arena_bytes, bytes);
        EXPECT_LE(dynamic.lengths[i].step_seconds, columns[5].lengths[i].step_seconds);
      }
    }
    EXPECT_GT(none.lengths.back().arena_bytes, bytes);
  }
}

// As published comparisons have it: the plan that was chosen for the longest, for every length.
TEST(Policies, FixedIsThePlanOfTheLongestWhereNoLayersAreNamed) {
  for (const double share : {0.5, 1.0}) {
    const std::vector<PolicyEstimate> columns = compare_policies(planned(budget(some_budget(share))));
    for (std::size_t i = 0; i < columns[2].lengths.size(); ++i) {
      EXPECT_EQ(columns[2].lengths[i].arena_bytes, columns[1].lengths[i].arena_bytes);
      EXPECT_EQ(columns[2].lengths[i].step_seconds, columns[1].lengths[i].step_seconds);
      if (share == 1) {
        EXPECT_EQ(columns[2].lengths[i].step_seconds, columns[4].lengths[i].step_seconds) << "none fits";
      }
    }
  }
  const std::vector<PolicyEstimate> named = compare_policies(
      planned(budget(some_budget(0.5)) + Words{ac("budget_policy=fixed"), ac("recompute_layers=[0, 2]")}));
  EXPECT_EQ(named[2].recomputed, (std::vector<std::string>{"0", "2"}));
}

// A step of each length as often as it comes.
TEST(Policies, AddUpAnEpochOfTheLengthsThatAreCounted) {
  const Config config = planned(budget(some_budget(0.3)));
  const LengthCounts counts = read_length_counts("8:3, 15:4,24:5", config);
  EXPECT_EQ(counts, (LengthCounts{{8, 3}, {16, 4}, {24, 5}}));
  for (const PolicyEstimate& column : compare_policies(config, counts)) {
    ASSERT_EQ(column.lengths.size(), 3u);
    const auto seconds = [&](std::size_t i) { return column.lengths[i].step_seconds; };
    EXPECT_NEAR(column.epoch_seconds, 3 * seconds(0) + 4 * seconds(1) + 5 * seconds(2), 1e-12);
  }
  for (const char* text : {"8", "8:", "8:x", ":3", "25:1", "0:1", "8:-1", " "})
    EXPECT_THROW(read_length_counts(text, config), Error) << text;
}

TEST(Policies, CountLengthsInTheData) {
  const Workplace place;
  place.folder().write("run.yaml", kBudgetYaml);
  std::string lines;
  for (int i = 0; i < 24; ++i) {  // three micro-batches: of 5 tokens at most, of 12, of 24
    lines += R"({"input_ids": [1)";
    for (int token = 1; token < (i < 8 ? 5 : i < 16 ? 12 : 24); ++token) lines += ", 2";
    lines += "]}\n";
  }
  place.folder().write("lines.jsonl", lines);
  const Words words =
      Words{"estimate", "run.yaml", "--policies", "data.shuffle=false"} + budget(some_budget(0.4));
  const Finished counted = place.recollect(words + Words{"--lengths", "data", "--json"}),
                 given = place.recollect(words + Words{"--lengths", "8:1,16:1,24:1", "--json"});
  ASSERT_EQ(counted.status, 0) << counted.err;
  EXPECT_EQ(counted.out, given.out);
  EXPECT_EQ(place.recollect(Words{"estimate", "run.yaml", "--lengths", "data"}).status, 2);
}

TEST(Policies, AreOneTableInWordsAndJson) {
  const Workplace place;
  place.folder().write("run.yaml", kBudgetYaml);
  const uint64_t bytes = some_budget(0.4);
  const Words words = Words{"estimate", "run.yaml", "--policies"} + budget(bytes);
  const Finished text = place.recollect(words), numbers = place.recollect(words + Words{"--json"});
  ASSERT_EQ(text.status, 0) << text.err;
  ASSERT_EQ(numbers.status, 0) << numbers.err;
  const json document = json::parse(numbers.out);
  EXPECT_EQ(document.at("budget"), bytes);
  std::istringstream head(row_of(text.out, "length"));
  std::string cell;
  head >> cell >> cell;
  EXPECT_EQ(cell, "from");  // the shortest of a row
  for (const char* policy : {"dynamic", "static", "fixed", "full", "none"}) {
    head >> cell;
    EXPECT_EQ(cell, policy);
    const json& column = document.at("policies").at(policy);
    ASSERT_EQ(column.size(), 3u);
    for (const json& entry : column) {
      EXPECT_EQ(entry.at("fits"), entry.at("arena_bytes") <= bytes);
      const std::string mib =
          fmt::format("{:.2f}{}", entry.at("arena_bytes").get<double>() / (1 << 20),
                      entry.at("fits") ? " " : "*");  // the mark of what is over the budget
      const std::string row = row_of(text.out, std::to_string(entry.at("length").get<int64_t>()));
      EXPECT_NE(row.find(mib), std::string::npos) << mib << " in " << row;
    }
  }
  EXPECT_FALSE(document.at("policies").at("none").back().at("fits"));
  const Finished small = place.recollect(Words{"estimate", "run.yaml", "--policies"} + budget(1 << 10));
  EXPECT_EQ(small.status, 4) << small.err;
}

// What has an effect in one column may have none in another: that is no reason to show none of them.
TEST(Policies, AreShownWhereASwitchHasNoEffectInSome) {
  const uint64_t bytes = some_budget(0.5);
  const std::vector<PolicyEstimate> without = compare_policies(planned(budget(bytes)));
  for (const Words& words :
       {Words{ac("prefetch=2"), ac("host_memory_budget=1MiB")}, Words{ac("cpu_checkpointing=true")},
        Words{ac("verify=true")}, Words{ac("contiguous_checkpointing=false")}})
    for (const Words& layers : {Words{}, Words{"model.n_layer=1"}}) {
      SCOPED_TRACE(words.front());
      const std::vector<PolicyEstimate> columns = compare_policies(planned(budget(bytes) + words + layers));
      ASSERT_GE(columns.size(), 5u);
      if (words.size() == 2 && layers.empty()) {
        EXPECT_EQ(columns[4].lengths.back().arena_bytes, without[4].lengths.back().arena_bytes);
      }
    }
}

TEST(Policies, ThatNoBudgetChangesSayWhatTheyTake) {
  const uint64_t none = bytes_of({}), bytes = some_budget(0.5);
  const Config config = planned(budget(bytes) + Words{ac("budget_policy=none")});
  const std::optional<Error> refusal = PlannedRank(config, 0, 0).plan(config).checkpointed.refusal;
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ExitCode::kDeviceMemory);
  const std::string text = refusal->what();
  EXPECT_EQ(text.find(fmt::format("the budget is {}, and budget_policy none needs {}, and most of it is ",
                                  byte_count(bytes), byte_count(none))),
            0u)
      << text;
}

TEST(Budgets, NoModeThatFitsIsFasterThanAPlan) {
  const BudgetComparison all = compare_budgets(planned({}));
  ASSERT_EQ(all.curves.size(), kSpellings<CheckpointingMode>.size() - kNamedModes.size());
  const BudgetCurve& automatic = all.curves.front();
  EXPECT_EQ(automatic.mode, "auto");
  EXPECT_EQ(all.named.size(), kNamedModes.size());
  EXPECT_GT(automatic.points.size(), 12u);
  for (const NamedMode& one : all.named)
    EXPECT_TRUE(std::any_of(automatic.points.begin(), automatic.points.end(), [&](const BudgetPoint& p) {
      return p.budget == one.arena_bytes;
    })) << one.mode;
  for (std::size_t i = 0; i < automatic.points.size(); ++i) {
    const BudgetPoint& now = automatic.points[i];
    EXPECT_GT(now.arena_bytes, 0u);
    EXPECT_LE(now.arena_bytes, now.budget);
    if (i > 0) {
      EXPECT_GT(now.budget, automatic.points[i - 1].budget);
      EXPECT_LE(now.step_seconds, automatic.points[i - 1].step_seconds);
    }
    for (const NamedMode& one : all.named)
      if (one.arena_bytes <= now.budget) {
        EXPECT_LE(now.step_seconds, one.step_seconds) << one.mode;
      }
    for (const BudgetCurve& curve : all.curves) {
      EXPECT_EQ(curve.points[i].budget, now.budget);
      EXPECT_LE(curve.points[i].arena_bytes, now.budget) << curve.mode;
    }
  }
  EXPECT_EQ(automatic.points.back().budget, bytes_of({}));
}

// Below what full takes, where plans begin recomputation elsewhere than at layers' inputs.
TEST(Budgets, DtrIsNoFasterThanAutoInTheSameBudget) {
  const char* const bert = R"(
task: sequence_classification
model: {type: bert, vocab_size: 200, max_position_embeddings: 64, hidden_size: 32, num_hidden_layers: 8,
        num_attention_heads: 4, intermediate_size: 128, num_labels: 2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 4, max_steps: 2}
data: {format: random, sequence_length: 64}
)";
  const Config none = test::planned(bert), full = test::planned(bert, {ac("mode=full")});
  const uint64_t most = test::bytes_of(full);
  const auto seconds = [&](const Config& config, uint64_t bytes) {
    const TrainingProgram training = PlannedRank(config, 0, 0).plan(config);
    if (training.checkpointed.refusal) return 0.0;
    EXPECT_LE(training.program.predicted().arena_bytes(), bytes);
    return simulate(training.program.graph, training.program.schedule, training.device, 1).step_seconds;
  };
  const double of_none = seconds(none, test::bytes_of(none)), of_full = seconds(full, most);
  int better = 0;
  for (const double share : {0.97, 0.98, 0.99, 1.0}) {
    const auto bytes = static_cast<uint64_t>(share * static_cast<double>(most));
    const double automatic = seconds(test::planned(bert, budget(bytes)), bytes),
                 dtr = seconds(test::planned(bert, budget(bytes) + Words{ac("mode=dtr")}), bytes);
    if (automatic == 0) continue;
    if (dtr > 0) {
      EXPECT_LE(automatic, dtr * (1 + 1e-9)) << share;
    }
    better += automatic < of_full && dtr > 0;
  }
  EXPECT_GE(better, 2);
  EXPECT_LT(of_none, of_full);
}

TEST(Budgets, AreMetWithTheSwitchesOfTheRun) {
  const Words switches{ac("cpu_checkpointing=true"), ac("prefetch=0"), ac("keep_last=0")};
  const BudgetComparison all = compare_budgets(planned(switches + Words{ac("mode=full")}));
  for (const BudgetCurve& curve : all.curves) {
    const BudgetPoint& some = curve.points[curve.points.size() / 2];
    ASSERT_GT(some.arena_bytes, 0u) << curve.mode;
    const Config run = planned(budget(some.budget) + switches + Words{ac("mode=" + curve.mode)});
    const TrainingProgram training = PlannedRank(run, 0, 0).require_plan(run);
    EXPECT_EQ(training.program.predicted().arena_bytes(), some.arena_bytes) << curve.mode;
    EXPECT_EQ(simulate(training.program.graph, training.program.schedule, training.device, 1).step_seconds,
              some.step_seconds)
        << curve.mode;
  }
}

// All of a page's picture is in the page, in colours that the page chooses for light and dark.
TEST(Budgets, AreDrawnAsTheyArePrinted) {
  const Workplace place;
  place.folder().write("run.yaml", kBudgetYaml);
  const Words words{"estimate", "run.yaml", "--pareto"};
  const Finished text = place.recollect(words + Words{"--html", "budgets.html"}),
                 numbers = place.recollect(words + Words{"--json"});
  ASSERT_EQ(text.status, 0) << text.err;
  const json rows = json::parse(numbers.out);
  ASSERT_GT(rows.size(), 12u);
  const std::string page = TemporaryFolder::read(place.file("budgets.html"));
  const std::size_t begin = page.find("<div class=\"wide budgets\""),
                    end = page.find("</div>\n</section>", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string svg = page.substr(begin, end - begin);
  constexpr int kPictures = 4;  // one for each range of screens
  EXPECT_EQ(times_in(svg, "<svg"), kPictures);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(svg.find("http"), std::string::npos);
  EXPECT_EQ(svg.find('#'), std::string::npos) << "a colour that is not the page's";
  for (const char* part :
       {"step, ms", "memory budget of a rank, MiB", "mode auto within a budget", "named modes, switches off"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  std::istringstream lines(text.out);
  std::string line;
  for (int head = 0; head < 2; ++head) std::getline(lines, line);
  for (const json& row : rows) {
    std::getline(lines, line);
    const auto mib = [&](const char* key) {
      return fmt::format("{:.2f}", row.at(key).get<double>() / (1 << 20));
    };
    const std::string ms = fmt::format("{:.3f}", 1e3 * row.at("auto").get<double>());
    for (const std::string& cell : {mib("budget"), mib("arena_bytes"), ms})
      EXPECT_NE(line.find(cell), std::string::npos) << cell << " in " << line;
    EXPECT_GE(times_in(svg, fmt::format("auto: {} MiB of {}, {} ms", mib("arena_bytes"), mib("budget"), ms)),
              1);
  }
  EXPECT_EQ(times_in(svg, "<title>auto: "), kPictures * static_cast<int>(rows.size()));
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(text.out.find("  constant_memory\n"), std::string::npos) << text.out;
  for (std::string_view mode : kNamedModes) EXPECT_NE(page.find(mode, begin), std::string::npos) << mode;
  EXPECT_TRUE(rows.back().contains("none"));
  EXPECT_FALSE(rows.front().contains("none"));
}

TEST(BudgetsChart, HoldsItsMarksWithinItsFrame) {
  BudgetComparison one{.curves = {{.mode = "auto", .points = {{5 << 20, 5 << 20, 0.25}}}},
                       .named = {{"none", 5 << 20, 0.25}, {"full", 5 << 20, 0.25}, {"slow", 4 << 20, 9}}};
  const std::string chart = budgets_chart(one);
  EXPECT_EQ(chart.find("nan"), std::string::npos) << chart;
  EXPECT_EQ(chart.find("inf"), std::string::npos) << chart;
  EXPECT_EQ(times_in(chart, "none, full"), 4 * 2) << "one mark and its name";
  EXPECT_NE(chart.find("Off the chart: slow, 4.00 MiB in 9000.0 ms"), std::string::npos) << chart;
  EXPECT_EQ(times_in(chart, ">slow</text>"), 0);
  // Where a plan within a budget takes as long, there is room for the mode too. Its name ends within the picture.
  one.curves[0].points.insert(one.curves[0].points.begin(), {4 << 20, 4 << 20, 9});
  const std::string wide = budgets_chart(one);
  EXPECT_EQ(wide.find("Off the chart"), std::string::npos) << wide;
  EXPECT_EQ(times_in(wide, ">slow</text>"), 4);
  for (std::size_t at = wide.find("<svg"); at != std::string::npos; at = wide.find("<svg", at + 1)) {
    const std::string svg = wide.substr(at, wide.find("</svg>", at) - at);
    const std::size_t name = svg.rfind("<text x=\"", svg.find(">none, full</text>"));
    EXPECT_LE(std::stod(svg.substr(name + 9)) + 7 * std::string_view("none, full").size(),
              std::stod(svg.substr(svg.find("viewBox=\"0 0 ") + 13)));
  }
}

}  // namespace
}  // namespace recollect::test::budget_tables_test
