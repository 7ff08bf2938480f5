// The numbers behind a report: they add up to the arenas, they are what the executor counts, and they are the
// same again when they have been written and read.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "launch/report/chrome_trace.h"
#include "launch/report/compare.h"
#include "launch/report/html_page.h"
#include "launch/report/memory_table.h"
#include "launch/report/rank_report_json.h"
#include "tests/launch/report_harness.h"

namespace recollect::test::report_numbers_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Of every phase, the most that the curve of a space holds.
std::array<uint64_t, kPhaseCount> curve_peaks(const Timeline& timeline, MemorySpace space) {
  std::array<uint64_t, kPhaseCount> peaks{};
  const auto ticks = 2 * static_cast<int64_t>(timeline.ops.size());
  int64_t since = 0;
  HeldBytes held = timeline.memory.persistent;
  const auto stay_until = [&](int64_t tick) {
    for (; since < tick; ++since) {
      uint64_t& peak = peaks[static_cast<std::size_t>(timeline.ops[since / 2].phase)];
      peak = std::max(peak, MemoryLedger::sum(held[static_cast<std::size_t>(space)]));
    }
  };
  for_each_change(timeline.memory, [&](int64_t tick, const HeldBytes& now) {
    stay_until(tick);
    held = now;
  });
  stay_until(ticks);
  return peaks;
}

TEST(ReportOfADevice, SaysWhatItHoldsBesideTheArena) {
  RankReport report = reports_of_run({}).at(0);
  EXPECT_EQ(ranks_table(std::vector{memory_of(report)}).find("beside the arena"), std::string::npos);
  EXPECT_EQ(rank_report_text(report).find("beside_arena"), std::string::npos)
      << "a CPU's memory is the host's";
  report.beside_arena = 700 << 20;
  report.device_communicators = 41 << 20;
  const RankReport again = read_rank_report(rank_report_text(report), "memory.json");
  EXPECT_EQ(again.beside_arena, report.beside_arena);
  EXPECT_EQ(again.device_communicators, report.device_communicators);
  const std::string table = ranks_table(std::vector{memory_of(again)});
  EXPECT_NE(table.find("beside the arena          700.00\n  communicators            41.00\n"),
            std::string::npos)
      << table;
}

class ReportNumbers : public ::testing::TestWithParam<Words> {};

TEST_P(ReportNumbers, OfEveryRankAddUpToTheArenas) {
  for (const RankReport& report : reports_of_run(GetParam())) {
    ASSERT_TRUE(report.measured);
    EXPECT_EQ(report.predicted, *report.measured);
    const MemoryLedger& ledger = *report.measured;
    const auto device = curve_peaks(report.timeline, MemorySpace::kDevice);
    for (int p = 0; p < kPhaseCount; ++p) EXPECT_EQ(device[p], MemoryLedger::sum(ledger.at_peak[p])) << p;
    // The table's column: categories and what is not in use are the arena, to the byte.
    const nlohmann::json json = ledger_json(ledger);
    for (const char* phase : {"forward", "backward", "optimizer"}) {
      uint64_t sum = 0;
      for (int c = 0; c < kStepCategoryCount; ++c)
        sum += json.at(phase).at(std::string(name_of(static_cast<Category>(c)))).get<uint64_t>();
      EXPECT_EQ(sum, json.at(phase).at("total")) << phase;
      EXPECT_LE(sum, json.at("arena")) << phase;
    }
    EXPECT_EQ(json.at("loaded").at("total"), ledger.persistent_bytes);
    EXPECT_GT(json.at("loaded").at("parameters"), 0);
    EXPECT_EQ(json.at("loaded").at("activations"), 0);
    EXPECT_EQ(json.at("peak").get<uint64_t>() + json.at("unused_at_peak").get<uint64_t>(), json.at("arena"));
    const auto host = curve_peaks(report.timeline, MemorySpace::kHost);
    EXPECT_LE(*std::max_element(host.begin(), host.end()), ledger.host_bytes);
    EXPECT_EQ(*std::max_element(host.begin(), host.end()) > 0, ledger.host_bytes > 0);
  }
}

TEST_P(ReportNumbers, AreTheSameWhenReadAgain) {
  for (const RankReport& report : reports_of_run(GetParam())) {
    const std::string text = rank_report_text(report);
    const RankReport again = read_rank_report(text, "memory.json");
    EXPECT_EQ(again.predicted, report.predicted);
    EXPECT_EQ(again.measured, report.measured);
    EXPECT_EQ(again.run, report.run);
    EXPECT_EQ(again.switches, report.switches);
    EXPECT_EQ(again.step, report.step);
    ASSERT_TRUE(report.timeline.measured);
    EXPECT_EQ(again.timeline, report.timeline);
    EXPECT_EQ(rank_report_text(again), text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReportNumbers,
                         ::testing::Values(checkpointed(1, "none", false, false),
                                           checkpointed(1, "full", false, true),
                                           checkpointed(2, "full", true, true),
                                           checkpointed(2, "selective", true, false)));

// One of the ways in which a file goes wrong: bytes lost, bytes doubled, or others in their place.
std::string damaged(std::string text, std::mt19937& random) {
  static constexpr std::string_view kInstead[] = {
      "-",    "9",    "0",  "\"", "[",       "]",     "{",   "}", ",", "e400", "9223372036854775807", "-1",
      "1e18", "null", "[]", "{}", "\"a\":1", "false", "0.5", ":", " ", "\xff", "18446744073709551615"};
  const std::size_t at = random() % text.size(), length = random() % 12;
  switch (random() % 3) {
    case 0:
      return text.erase(at, length);
    case 1:
      return text.insert(at, text.substr(random() % text.size(), length));
    default:
      return text.replace(at, random() % 4, kInstead[random() % std::size(kInstead)]);
  }
}

TEST(DamagedReports, AreRefusedOrCanBeShown) {
  std::vector<std::string> texts;
  for (const RankReport& report : reports_of_run(checkpointed(2, "full", true, true)))
    texts.push_back(rank_report_text(report));
  std::mt19937 random(5);
  int refused = 0, shown = 0;
  for (int times = 0; times < 400; ++times) {
    const std::string text = damaged(texts[random() % texts.size()], random);
    try {
      const RankReport report = read_rank_report(text, "memory.rank0.json");
      const std::vector<RankReport> run{report};
      ChromeTrace trace;
      trace.add(report, ChromeTrace::Times::kMeasured);
      trace.add(report, ChromeTrace::Times::kPredicted);
      const std::vector<std::vector<RankReport>> runs{run, run};
      shown += !html_page(runs).empty() && !comparison_text(run, run).empty() &&
               !ranks_table(std::vector{memory_of(report)}).empty() && !rank_text(report).empty() &&
               nlohmann::json::accept(trace.text());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInput) << error.what();
      EXPECT_TRUE(std::string_view(error.what()).starts_with("memory.rank0.json: ")) << error.what();
      ++refused;
    }
  }
  EXPECT_EQ(refused + shown, 400);
  EXPECT_GT(refused, 100);
  EXPECT_GT(shown, 20);  // a digit of a name, a time a little longer
}

// Side streams made slow, to have waits that can be told apart.
class SlowCopies final : public ExecutorProbe {
 public:
  void before_op(const Executor& executor, OpId id) override {
    if (executor.program().graph.op(id).stream != StreamId::kCompute)
      std::this_thread::sleep_for(std::chrono::milliseconds(8));
  }
};

TEST(ReportTimes, OfTheRecordedStepAreTheExecutorsOwnWaits) {
  SlowCopies slow[2];
  // One step, and that one recorded: its waits are all that the executor has counted.
  const Words words = checkpointed(2, "full", true, true) + Words{"training.max_steps=1"};
  for (const RankReport& report :
       reports_of_run(words, [&](int rank) { return ProgramParts{.probe = &slow[rank]}; })) {
    const ExposedWaits seen = exposed_waits(report.timeline.ops, *report.timeline.measured);
    const ExposedWaits& counted = report.step.measured_exposed;
    EXPECT_GT(counted.total(), 0.05);
    for (int s = 0; s < kStreamCount; ++s)
      EXPECT_NEAR(seen.by_stream[s], counted.by_stream[s], 2e-3 + 0.02 * counted.total())
          << name_of(static_cast<StreamId>(s));
    EXPECT_NEAR(seen.total(), counted.total(), 2e-3 + 0.02 * counted.total());
    EXPECT_GT(recompute_seconds(report.timeline.ops, *report.timeline.measured), 0);
  }
}

TEST(ReportTimes, PredictedOnesAreTheSimulators) {
  const RankReport report =
      predicted_report(checkpointed(2, "full", true, true) + Words{"training.gradient_accumulation_steps=5"});
  EXPECT_FALSE(report.measured);
  EXPECT_FALSE(report.timeline.measured);
  EXPECT_EQ(report.timeline.predicted.end, std::llround(1e9 * report.step.predicted));
  EXPECT_EQ(report.timeline.predicted.runs.size(), 3u);
  double idle = report.step.predicted;
  for (const StepTimeline::Run& run : report.timeline.predicted.runs)
    for (std::size_t i = 0; i < run.ops.size(); ++i)
      if (report.timeline.ops[run.first + i].stream == StreamId::kCompute && run.ops[i].ran())
        idle -= 1e-9 * static_cast<double>((run.ops[i].end - run.ops[i].begin) *
                                           report.timeline.predicted.stands_for(run));
  EXPECT_NEAR(report.step.predicted_exposed.total(), idle, 1e-6 * report.step.predicted);
}

TEST(ReportSwitches, SayWhatTheySavedMovedAndCost) {
  const RankReport report = reports_of_run(checkpointed(2, "full", true, true)).front();
  ASSERT_EQ(report.switches.size(), 3u);
  const SwitchEffect &mode = report.switches[0], &partition = report.switches[1], &host = report.switches[2];
  EXPECT_EQ(mode.name, "mode");
  EXPECT_GT(mode.flops, 0);
  EXPECT_GT(mode.saved_bytes, host.saved_bytes);
  EXPECT_GT(mode.running.predicted, 0);
  EXPECT_GT(mode.running.measured.value(), 0);
  EXPECT_EQ(partition.name, "partition_activations");
  EXPECT_EQ(partition.moved_bytes, 2 * partition.saved_bytes);  // of two ranks, each lacks half
  EXPECT_EQ(host.name, "cpu_checkpointing");
  EXPECT_EQ(host.moved_bytes, 2 * host.saved_bytes);  // out and back
  EXPECT_DOUBLE_EQ(host.exposed.measured.value(),
                   report.step.measured_exposed.by_stream[static_cast<int>(StreamId::kDeviceToHost)] +
                       report.step.measured_exposed.by_stream[static_cast<int>(StreamId::kHostToDevice)]);
}

RankMemory rank_with(uint64_t activations, double exposed) {
  MemoryLedger ledger;
  ledger.at_peak[0][static_cast<int>(Category::kActivation)] = activations;
  ledger.transient_bytes = activations + 64;
  return {
      .predicted = ledger, .measured = ledger, .exposed_seconds = exposed, .reserved = reserved_for(ledger)};
}

TEST(RanksTable, NamesTheRankThatStandsOut) {
  constexpr uint64_t kMega = 1 << 20;
  const RankMemory like = rank_with(8 * kMega, 0.001), unlike = rank_with(11 * kMega, 0.001),
                   late = rank_with(8 * kMega, 0.25);
  EXPECT_NE(ranks_table(std::vector{like, like, like}).find("memory: all 3 ranks alike"), std::string::npos);
  const std::string text = ranks_table(std::vector{like, like, unlike, late});
  EXPECT_NE(text.find("memory: rank 2 stands out with an arena peak of 11.00 MiB; the median is 8.00"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("exposed waits: rank 3 has the most, 250 ms a step; the median is 1 ms"),
            std::string::npos)
      << text;
}

TEST(RanksTable, IsInGiBWhereThereIsOne) {
  EXPECT_NE(ranks_table(std::vector{rank_with(uint64_t{3} << 30, 0)}).find("memory, GiB"), std::string::npos);
  EXPECT_NE(ranks_table(std::vector{rank_with(3 << 20, 0)}).find("memory, MiB"), std::string::npos);
  const std::string text = ranks_table(std::vector{rank_with((uint64_t{3} << 30) + (uint64_t{1} << 29), 0)});
  EXPECT_NE(text.find("activations                 3.50\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace recollect::test::report_numbers_test
