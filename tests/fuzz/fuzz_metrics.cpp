// Lines of a metrics.jsonl as a page's curves read them, whoever wrote them; and each as a rank's live.rankN.json, which is
// read while it is written.
#include "engine/io/json.h"
#include "launch/report/live_rank.h"
#include "launch/report/training_curves.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  TrainingCurves curves;
  int64_t lines = 0;
  while (!text.empty()) {
    const std::string line(fuzz::take_until(text, '\n'));
    curves.add_line(line);
    ++lines;
    const std::optional<LiveRank> live = read_live_rank(line);
    if (!live) continue;
    fmt::memory_buffer again;
    append_live_rank(*live, again);
    fuzz::expect(read_live_rank(fmt::to_string(again)).has_value(), "what was written is not read again");
  }
  fuzz::expect(curves.lines_left_out() <= lines, "more lines are left out than there are");
  for (const TrainingCurves::Named& named : curves.all())
    for (const Curve::Point& point : named.curve.points())
      fuzz::expect(point.low <= point.high && point.step <= curves.step(), "a point outside its curve");
  curves_json(curves).dump();
}
