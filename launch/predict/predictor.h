// One rank's model that answers and does not learn: forward alone. Sequences stand back to back in rows of so many
// tokens, so that what a row costs goes with real tokens, whatever their samples' lengths. All memory is predicted, then
// reserved, when the predictor is made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/runtime/executor.h"
#include "launch/config/config.h"
#include "launch/program/forward_program.h"
#include "launch/ranks/backend.h"
#include "parallel/mesh.h"

namespace recollect {

// What a model says of every sample: task.h's logits, sample behind sample.
struct Logits {
  std::vector<double> values;
  std::vector<std::size_t> ends;  // of each sample in them
  int64_t tokens = 0;             // of all samples
  int64_t computed = 0;           // of all rows, what stays empty included
  double seconds = 0;

  std::span<const double> of(std::size_t sample) const {
    const std::size_t begin = sample == 0 ? 0 : ends[sample - 1];
    return std::span(values).subspan(begin, ends[sample] - begin);
  }
};

class Predictor {
 public:
  // Collective. `config` is of a world of data x tensor ranks; its weights are those in model.pretrained. `dataset`: what
  // will be asked, which the sizes of rows follow. Errors kDeviceMemory, kHostMemory where there is no room, kInput for
  // samples that cannot stand in a row.
  Predictor(const Config& config, Communicator& world, const Dataset& dataset);

  // Collective: of all samples of the dataset, the same on every rank. Data ranks take rows in turn.
  Logits run();

  const MemoryLedger& predicted() const { return predicted_; }
  MemoryLedger measured() const { return executor_->measured(); }
  const std::vector<std::string>& drawn() const { return drawn_; }  // parameters that the files lack

 private:
  // Samples that share a row.
  struct Row {
    int64_t first = 0, last = 0;
  };
  // A sequence in the row that is being filled.
  struct Sequence {
    int64_t begin = 0, tokens = 0;
  };

  void lay_out_rows();
  void fill(const Row& row);
  void fill_sequence(const Fields& sample, std::size_t number, Sequence& at);
  void run_row();
  void take(const Row& row, Logits& logits);
  std::size_t logits_of(int64_t sample) const;

  Config config_;
  Backend backend_;
  Mesh mesh_;
  const Dataset& dataset_;
  TaskSettings task_;
  int64_t tokens_ = 0, sequences_ = 0;  // of a row, at most
  std::vector<Row> rows_;
  ForwardProgram made_;
  MemoryLedger predicted_;
  std::unique_ptr<ProgramMemory> memory_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::string> drawn_;
  // Of the row that is being filled:
  Fields sample_;
  std::vector<int32_t> ids_, token_types_, positions_, first_tokens_, targets_;
  std::vector<Sequence> places_;
  std::vector<std::byte> row_bytes_;
  std::vector<double> row_logits_;
};

}  // namespace recollect
