// Writes timelines in Chrome's trace format, which Perfetto opens. There is one process for each rank and
// kind of times (measured, predicted), and one thread for each stream. On the compute thread ops are nested
// in their layer, and layers in their micro-batch. Waits are separate slices; a collective's wait for other
// ranks is at its beginning. A flow leads to each op from every op of another stream that it waits for.
// Counters show the bytes of each category in each memory space.
#pragma once

#include <string>
#include <string_view>

#include "launch/report/rank_report.h"

namespace recollect {

class ChromeTrace {
 public:
  enum class Times { kPredicted, kMeasured };
  // Added to the rank's number for the process id of predicted times; measured times have the rank's number.
  static constexpr int kPredictedProcess = 1 << 20;
  // Every document begins with this.
  static constexpr std::string_view kMark = R"({"displayTimeUnit":"ms","traceEvents":[)";

  // With kMeasured, a report without a measured step adds nothing.
  void add(const RankReport& report, Times times);
  // The whole document.
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
