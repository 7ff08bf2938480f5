// Computes the loss and the metrics on an evaluation set, between steps: it runs forward of the training
// program in its memory, without dropout. Every evaluation reads the same sequences in file order from the
// beginning of the set, with prefetch. If they do not fill the micro-batches of all data ranks, the rest is
// padding that no loss counts. An evaluation does not change the training: the following steps have the same
// bits as without it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/data/loader.h"
#include "launch/config/config.h"
#include "launch/config/epochs.h"
#include "launch/train/batch_programs.h"
#include "launch/train/metric_collector.h"
#include "launch/train/open_data.h"
#include "parallel/mesh.h"

namespace recollect {

struct EvaluationResult {
  double loss = 0;            // mean over the valid targets of all data ranks
  int64_t tokens = 0;         // read by all data ranks, without padding sequences
  int64_t valid_targets = 0;  // those that count in the loss
  MetricList metrics = {};    // over all data ranks; equal on every rank
  double epoch = 0;           // Session::epoch() at this time
  double seconds = 0;
  bool is_best = false;  // so far, if the run compares them
};

// Whether an evaluation is due: after every evaluation.every_steps or every_epochs, and at the end of the
// run.
bool evaluation_due(const Config& config, const TrainedSoFar& now);

class Evaluation {
 public:
  // `config` is resolved; `collator` must outlive the evaluation. Throws kConfiguration for metrics that do
  // not fit the task.
  Evaluation(const Config& config, const Mesh& mesh, OpenedData data, const Collator& collator);

  // Throws kConfiguration if no metric with this name (of kComparedMetrics) is reported.
  void check_reports(std::string_view name) const;

  // Collective. Throws kInput if no target counts, kNumerics if the loss is not finite.
  EvaluationResult run(BatchPrograms& programs, int64_t steps_done);

 private:
  // Collects the logits of this micro-batch for metrics.
  void collect(const ReadyProgram& ready, const MicroBatch& micro);
  MetricList metrics(double loss);

  const Mesh& mesh_;
  OpenedData data_;
  int64_t rows_;  // per sample
  int64_t micro_batches_;
  std::vector<MetricKind> metrics_;
  std::unique_ptr<MetricCollector> collector_;  // null if no metric needs logits
  std::vector<std::byte> bytes_;                // of logits; these buffers keep their memory
  std::vector<double> logits_;
  Loader loader_;  // one step is a micro-batch, one cycle an evaluation
};

}  // namespace recollect
