#include "launch/program/late_lengths.h"

#include <algorithm>

namespace recollect {

MemoryLedger neediest_of(const std::vector<MemoryLedger>& ledgers) {
  MemoryLedger needs;
  uint64_t host = 0, saved = 0, disk = 0;
  for (const MemoryLedger& own : ledgers) {
    if (own.arena_bytes() > needs.arena_bytes()) needs = own;
    host = std::max(host, own.host_bytes);
    saved = std::max(saved, own.host_saved_bytes);
    disk = std::max(disk, own.disk_bytes);
  }
  needs.host_bytes = host;
  needs.host_saved_bytes = saved;
  needs.disk_bytes = disk;
  return needs;
}

MemoryLedger most_of(const std::vector<MemoryLedger>& ledgers) {
  MemoryLedger most = neediest_of(ledgers);
  for (const MemoryLedger& own : ledgers)
    for (int p = 0; p < kPhaseCount; ++p)
      if (MemoryLedger::sum(own.at_peak[p]) > MemoryLedger::sum(most.at_peak[p])) {
        most.at_peak[p] = own.at_peak[p];
        most.peak_op[p] = own.peak_op[p];
      }
  return most;
}

TakenOver taken_over_from(const BatchShape& first, const TrainingProgram& made, const Layout& layout,
                          const MemoryLedger& reserved, const BatchShape& shape) {
  TakenOver taken{.disk = made.disk, .state_disk = made.state_disk};
  if (shape.samples <= first.samples && shape.sequence_length <= first.sequence_length) {
    taken.decided = &made.checkpointed;
    taken.larger = &layout;
    taken.reserved = &reserved;
  }
  return taken;
}

MemoryLedger plan_lengths(const Config& config, const Mesh& mesh, const std::vector<BatchShape>& shapes,
                          const TrainingProgram& longest, const Layout& layout) {
  std::vector<MemoryLedger> ledgers{layout.ledger};
  for (std::size_t i = 1; i < shapes.size(); ++i) {
    const TakenOver taken = taken_over_from(shapes.front(), longest, layout, layout.ledger, shapes[i]);
    const ModelGraph built = build_training_graph(config, mesh, shapes[i], taken.decided);
    if (taken.decided) {
      ledgers.push_back(plan_memory(config, mesh, built, taken));
      continue;
    }
    const TrainingProgram planned = plan_training_program(config, mesh, built, taken);
    if (planned.checkpointed.refusal) throw *planned.checkpointed.refusal;
    ledgers.push_back(planned.program.predicted());
  }
  return neediest_of(ledgers);
}

}  // namespace recollect
