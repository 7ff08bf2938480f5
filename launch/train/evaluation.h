// The loss on a set that is not trained on: forward of the training program, between steps, in the memory of
// training, with dropout off. Every evaluation sees the same sequences, from the beginning of the set on, in
// file order, read ahead as those of training are; where they do not fill the micro-batches of all data ranks,
// the rest is padding that no loss counts. Nothing of the training is touched: the steps after an evaluation
// are bit for bit those without it.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/data/loader.h"
#include "launch/config/config.h"
#include "launch/train/batch_programs.h"
#include "launch/train/open_data.h"
#include "parallel/mesh.h"

namespace recollect {

struct EvaluationResult {
  double loss = 0;            // mean over the valid targets of all data ranks
  int64_t tokens = 0;         // read by all data ranks, without the sequences that are all padding
  int64_t valid_targets = 0;  // that count in the loss
  double seconds = 0;
};

// Whether one follows when so many steps are done: after every evaluation.every_steps, and at the end of the
// run.
bool evaluation_due(const Config& config, int64_t steps_done);

class Evaluation {
 public:
  // `config` is resolved; `collator` must outlive the evaluation.
  Evaluation(const Config& config, const Mesh& mesh, OpenedData data, const Collator& collator);

  // Collective. Error kInput where no target counts, kNumerics where the loss is not finite.
  EvaluationResult run(BatchPrograms& programs, int64_t steps_done);

 private:
  const Mesh& mesh_;
  std::unique_ptr<Dataset> dataset_;
  int64_t rows_;  // of a sample
  int64_t micro_batches_;
  Loader loader_;  // a step of it is a micro-batch; an evaluation is a cycle
};

}  // namespace recollect
