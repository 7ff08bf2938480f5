// Timelines in Chrome's trace format, which Perfetto opens. One process per rank and kind of times, one
// thread per stream; on the compute thread ops lie inside their layer, and layers inside their micro-batch.
// Waits are slices of their own, those of a collective for other ranks at its beginning, and a flow leads to
// each op from every op of another stream that it comes after. Counters show the bytes of each category, per
// memory space.
#pragma once

#include <string>
#include <string_view>

#include "launch/report/rank_report.h"

namespace recollect {

class ChromeTrace {
 public:
  enum class Times { kPredicted, kMeasured };
  // Process ids: a rank's own number where measured, and so much above it where predicted.
  static constexpr int kPredictedProcess = 1 << 20;
  // What every document begins with.
  static constexpr std::string_view kMark = R"({"displayTimeUnit":"ms","traceEvents":[)";

  // A report without a measured step adds nothing measured.
  void add(const RankReport& report, Times times);
  // The whole document, of what was added.
  std::string text() const { return std::string(kMark) + "\n" + events_ + "\n]}\n"; }

 private:
  void event(const std::string& fields);
  void name_process(const RankReport& report, Times times);
  void add_layers(const Timeline& timeline, const StepTimeline::Run& run);
  void add_ops(const Timeline& timeline, const StepTimeline::Run& run);
  void add_flows(const Timeline& timeline, const StepTimeline::Run& run);
  void add_counter(MemorySpace space, int64_t at, const MemoryLedger::Row& row);
  void add_counters(const Timeline& timeline, const StepTimeline::Run& run);
  void slice(int stream, const std::string& name, const char* kind, int64_t begin, int64_t end,
             const std::string& arguments = {});

  std::string events_;
  int process_ = 0;
  int64_t flows_ = 0;
};

}  // namespace recollect
