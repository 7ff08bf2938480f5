// The loss and the metrics on a set that is not trained on: forward of the training program, between steps, in the memory of
// training, with dropout off. Every evaluation sees the same sequences, from the beginning of the set on, in
// file order, read ahead as those of training are; where they do not fill the micro-batches of all data ranks,
// the rest is padding that no loss counts. Nothing of the training is touched: the steps after an evaluation
// are bit for bit those without it.
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
  int64_t tokens = 0;         // read by all data ranks, without the sequences that are all padding
  int64_t valid_targets = 0;  // that count in the loss
  MetricList metrics = {};    // of all data ranks; the same on every rank
  double epoch = 0;           // Session::epoch() so far
  double seconds = 0;
  bool is_best = false;  // so far, where something depends on it
};

// Whether one follows now: after every evaluation.every_steps or every_epochs, and at the end of the run.
bool evaluation_due(const Config& config, const TrainedSoFar& now);

class Evaluation {
 public:
  // `config` is resolved; `collator` must outlive the evaluation. Error kConfiguration for metrics that do not fit.
  Evaluation(const Config& config, const Mesh& mesh, OpenedData data, const Collator& collator);

  // Error kConfiguration where no metric is reported as that number (kComparedMetrics).
  void check_reports(std::string_view name) const;

  // Collective. Error kInput where no target counts, kNumerics where the loss is not finite.
  EvaluationResult run(BatchPrograms& programs, int64_t steps_done);

 private:
  // What the program of this micro-batch has left, for metrics.
  void collect(const ReadyProgram& ready, const MicroBatch& micro);
  MetricList metrics(double loss);

  const Mesh& mesh_;
  OpenedData data_;
  int64_t rows_;  // of a sample
  int64_t micro_batches_;
  std::vector<MetricKind> metrics_;
  std::unique_ptr<MetricCollector> collector_;  // null where no metric looks at logits
  std::vector<std::byte> bytes_;                // of logits; this and what follows keep their memory
  std::vector<double> logits_;
  Loader loader_;  // a step of it is a micro-batch; an evaluation is a cycle
};

}  // namespace recollect
