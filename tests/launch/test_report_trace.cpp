// The trace as its format wants it: slices nested or apart on each thread, flows with two ends, counters that
// are the memory of the plan, and processes that never meet.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/io/strict_json.h"
#include "launch/report/chrome_trace.h"
#include "tests/launch/report_harness.h"

namespace recollect::test::report_trace_test {
namespace {

using nlohmann::json;

using Thread = std::pair<int, int>;

struct Slice {
  int64_t begin = 0, end = 0;  // nanoseconds
  std::string name, kind;
};

int64_t nanoseconds(const json& microseconds) { return std::llround(1e3 * microseconds.get<double>()); }

class Trace {
 public:
  explicit Trace(const std::string& text) : document_(parse_strict_json(text, "trace")) {
    for (const json& event : document_.at("traceEvents")) {
      const std::string phase = event.at("ph");
      if (phase == "X")
        slices_[{event.at("pid"), event.at("tid")}].push_back(
            {nanoseconds(event.at("ts")), nanoseconds(event.at("ts")) + nanoseconds(event.at("dur")),
             event.at("name"), event.at("cat")});
      if (phase == "M" && event.at("name") == "process_name")
        processes_[event.at("pid")] = event.at("args").at("name");
      if (phase == "s" || phase == "f") flows_[event.at("id")].push_back(event);
      if (phase == "C") counters_.push_back(event);
    }
  }

  const std::map<Thread, std::vector<Slice>>& slices() const { return slices_; }
  const std::map<int, std::string>& processes() const { return processes_; }
  const std::map<int64_t, std::vector<json>>& flows() const { return flows_; }
  const std::vector<json>& counters() const { return counters_; }

  // Of two slices of a thread that overlap, one contains the other.
  void expect_nested() const {
    for (auto [thread, slices] : slices_) {
      std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
      });
      std::vector<const Slice*> open;
      for (const Slice& slice : slices) {
        while (!open.empty() && open.back()->end <= slice.begin) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(slice.end, open.back()->end) << slice.name << " sticks out of " << open.back()->name;
        }
        open.push_back(&slice);
      }
    }
  }

  const Slice* slice_at(const Thread& thread, int64_t at, const std::string& kind) const {
    for (const Slice& slice : slices_.at(thread))
      if (slice.kind == kind && slice.begin <= at && at <= slice.end) return &slice;
    return nullptr;
  }

 private:
  json document_;
  std::map<Thread, std::vector<Slice>> slices_;
  std::map<int, std::string> processes_;
  std::map<int64_t, std::vector<json>> flows_;
  std::vector<json> counters_;
};

class ReportTraces : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { reports_ = reports_of_run(checkpointed(2, "full", true, true)); }
  static void TearDownTestSuite() { reports_.clear(); }

  static Trace of_rank(int rank, ChromeTrace::Times times) {
    ChromeTrace trace;
    trace.add(reports_.at(static_cast<std::size_t>(rank)), times);
    return Trace(trace.text());
  }
  static std::vector<RankReport> reports_;
};
std::vector<RankReport> ReportTraces::reports_;

TEST_F(ReportTraces, MeasuredAndPredictedHaveTheSameFormAndProcessesOfTheirOwn) {
  ChromeTrace both;
  for (const RankReport& report : reports_) {
    both.add(report, ChromeTrace::Times::kMeasured);
    both.add(report, ChromeTrace::Times::kPredicted);
  }
  const Trace trace(both.text());
  EXPECT_EQ(trace.processes().size(), 4u);
  EXPECT_EQ(trace.processes().at(1), "rank 1, step 2 as measured");
  EXPECT_EQ(trace.processes().at(ChromeTrace::kPredictedProcess + 1),
            "rank 1, a step as predicted by the preset cpu");
  trace.expect_nested();
  // The same slices on every thread, waits apart.
  const auto names = [&](const Thread& thread) {
    std::multiset<std::string> found;
    for (const Slice& slice : trace.slices().at(thread))
      if (slice.kind != "wait" && slice.kind != "peers") found.insert(slice.name);
    return found;
  };
  int threads = 0;
  for (const auto& [thread, slices] : trace.slices()) {
    if (thread.first >= ChromeTrace::kPredictedProcess) continue;
    EXPECT_EQ(names(thread), names({thread.first + ChromeTrace::kPredictedProcess, thread.second}));
    ++threads;
  }
  EXPECT_EQ(threads, 2 * 4) << "compute, gather, out and back, of two ranks";
}

TEST_F(ReportTraces, EveryOpThatRanIsASliceOfItsStream) {
  const Timeline& timeline = reports_.front().timeline;
  const Trace trace = of_rank(0, ChromeTrace::Times::kMeasured);
  std::size_t ran = 0, found = 0;
  for (const StepTimeline::Run& run : timeline.measured->runs)
    for (std::size_t i = 0; i < run.ops.size(); ++i) {
      if (!run.ops[i].ran()) continue;
      ++ran;
      const Timeline::Op& op = timeline.ops[run.first + i];
      const Thread thread{0, static_cast<int>(op.stream) + 1};
      for (const Slice& slice : trace.slices().at(thread))
        found += slice.kind == "op" && slice.name == op.name && slice.begin == run.ops[i].begin &&
                 slice.end == run.ops[i].end;
    }
  EXPECT_GT(ran, 100u);
  EXPECT_EQ(found, ran);
}

TEST_F(ReportTraces, FlowsLeadFromOneStreamToAnother) {
  for (const auto times : {ChromeTrace::Times::kMeasured, ChromeTrace::Times::kPredicted}) {
    const Trace trace = of_rank(1, times);
    EXPECT_GT(trace.flows().size(), 20u);
    for (const auto& [id, ends] : trace.flows()) {
      ASSERT_EQ(ends.size(), 2u);
      const json &from = ends[0], &to = ends[1];
      EXPECT_EQ(from.at("ph"), "s");
      EXPECT_EQ(to.at("ph"), "f");
      EXPECT_NE(from.at("tid"), to.at("tid"));
      EXPECT_LE(nanoseconds(from.at("ts")), nanoseconds(to.at("ts")));
      for (const json& end : ends)
        EXPECT_TRUE(trace.slice_at({end.at("pid"), end.at("tid")}, nanoseconds(end.at("ts")), "op"));
    }
  }
}

TEST_F(ReportTraces, CountersRiseToThePeaksOfThePlan) {
  const MemoryLedger& ledger = reports_.front().predicted;
  for (const auto times : {ChromeTrace::Times::kMeasured, ChromeTrace::Times::kPredicted}) {
    std::map<std::string, uint64_t> most;
    const Trace trace = of_rank(0, times);
    for (const json& counter : trace.counters()) {
      uint64_t sum = 0;
      for (const auto& [category, bytes] : counter.at("args").items()) sum += bytes.get<uint64_t>();
      EXPECT_EQ(counter.at("args").size(), static_cast<std::size_t>(kStepCategoryCount));
      uint64_t& so_far = most[counter.at("name")];
      so_far = std::max(so_far, sum);
    }
    EXPECT_EQ(most.size(), 2u);
    EXPECT_EQ(most.at("device bytes"), ledger.peak());
    EXPECT_EQ(most.at("host bytes"), ledger.host_bytes);
  }
}

TEST_F(ReportTraces, WithoutAMeasuredStepThereIsNothingMeasured) {
  ChromeTrace trace;
  trace.add(predicted_report(checkpointed(2, "full", true, true)), ChromeTrace::Times::kMeasured);
  EXPECT_TRUE(Trace(trace.text()).slices().empty());
}

}  // namespace
}  // namespace recollect::test::report_trace_test
