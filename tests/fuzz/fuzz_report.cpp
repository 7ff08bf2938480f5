// A memory.rankN.json as `recollect report` reads it, and the trace that is made of it.
#include "launch/report/chrome_trace.h"
#include "launch/report/rank_report_json.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  fuzz::accepts([&] {
    const RankReport report = read_rank_report(text, "memory.rank0.json");
    const std::string written = rank_report_text(report);
    fuzz::expect(rank_report_text(read_rank_report(written, "again")) == written,
                 "a report that was written reads back as another");
    ChromeTrace trace;
    trace.add(report, ChromeTrace::Times::kPredicted);
    trace.add(report, ChromeTrace::Times::kMeasured);
    trace.text();
  });
}
