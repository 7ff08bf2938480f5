#include "launch/report/reports.h"

#include "engine/io/standard_output.h"
#include "launch/config/check_reports.h"
#include "launch/report/memory_table.h"

namespace recollect {

void report_together(const Config& config, const RankReport& report, Communicator& world,
                     ReportFiles& files) {
  if (shows_tables(config)) {
    const std::vector<RankMemory> ranks = gather_memory(memory_of(report), world);
    if (world.rank() == 0) {
      if (report.measured)
        say("{}{}", ranks_table(ranks), rank_text(report));
      else
        say("before the first step, predicted:\n{}{}", rank_text(report), outliers_text(ranks));
    }
  }
  files.write_run(report, world);
}

void report_alone(const Config& config, const RankReport& report, ReportFiles& files) {
  say("rank {} after step {}/{}\n{}", report.rank, report.steps_done, config.training.max_steps,
      rank_text(report));
  files.write_rank(report);
}

}  // namespace recollect
