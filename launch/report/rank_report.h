// The report of one rank: predicted and measured memory, the effect of each activation checkpointing switch,
// the time of steps, and one step op by op. It is made during the run and written to `memory.rankN.json`
// (rank_report_json.h); reading gives back an equal report. Tables, pages and traces are made only from it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/ledger.h"
#include "launch/report/checkpointing_report.h"
#include "launch/report/lengths_report.h"
#include "launch/report/measurements.h"
#include "launch/report/start_times.h"
#include "launch/report/step_report.h"
#include "launch/report/timeline.h"

namespace recollect {

// Text for readers, the same on all ranks.
struct RunDescription {
  std::string name;           // the output folder
  std::string model;          // "TYPE: 842496 parameters, fp32, backend cpu"
  std::string layout;         // "1 data x 2 tensor ranks (mpi), each 4 threads of avx512, libm of glibc 2.36"
  std::string batch;          // "8 sequences of 128 = 1 micro-batches of 8 on each data rank"
  std::string checkpointing;  // "mode full, partition_activations"
  bool operator==(const RunDescription&) const = default;
};

// Memory reserved before the first step, for the length that needs the most.
struct ReservedMemory {
  uint64_t arena_predicted = 0;
  uint64_t arena = 0, host = 0, disk = 0;
  bool operator==(const ReservedMemory&) const = default;
};

ReservedMemory reserved_for(const MemoryLedger& needs);

// Memory and time of the same run without activation checkpointing, for the longest sequences.
struct Uncheckpointed {
  uint64_t peak = 0;     // bytes on the device
  double step = 0;       // seconds, predicted
  double with_step = 0;  // of the run itself, by the same device model
  bool operator==(const Uncheckpointed&) const = default;
};

// Facts that are fixed when a run begins.
struct RunStart {
  int64_t began = 0;                                  // seconds since 1970 by this rank's clock; 0: not begun
  std::optional<Uncheckpointed> uncheckpointed = {};  // if something is checkpointed; only on the first rank
  StartTimes times = {};                              // this rank's
  bool operator==(const RunStart&) const = default;
};

struct RankReport {
  int rank = 0, ranks = 1;
  RunDescription run;
  RunStart start;
  int64_t max_steps = 0, steps_done = 0;
  ReservedMemory reserved;
  MemoryLedger predicted;                // of the parts that have run; before the first step, of all lengths
  std::optional<MemoryLedger> measured;  // set once something has run
  uint64_t communication_buffers = 0;    // of the communicators, in host memory
  // Measured device memory outside of this rank's arena: the driver, libraries, communicators, other ranks
  // and programs. 0 on CPUs.
  uint64_t beside_arena = 0;
  uint64_t device_communicators = 0;  // the part of this rank's communicators, if known
  ResidentMemory resident;            // of its process; only on CPUs
  std::vector<SwitchEffect> switches;
  std::vector<SwitchSentence> sentences;
  StepReport step;
  std::vector<LengthReport> lengths;  // the lengths that have trained, if there are several
  Timeline timeline;
};

// "1 data x 2 tensor ranks (mpi)"
std::string ranks_text(const Config& config, const Mesh& mesh);
RunDescription describe(const Config& config, const Mesh& mesh, const TrainingProgram& training);

// The report before anything runs. `training` may no longer hold its `program`. `needs` is the memory that
// the run reserves.
RankReport predict(const Config& config, const Mesh& mesh, const TrainingProgram& training,
                   const Program& program, const MemoryLedger& needs);
// The report with everything measured so far.
RankReport report_of(const Config& config, const Measurements& measured, const RunStart& start = {});

// Empty if nothing is checkpointed, or if such a run cannot be planned. `training` may no longer hold its
// `program`. `plan` plans a configuration that differs only in activation_checkpointing.
std::optional<Uncheckpointed> predict_uncheckpointed(
    const Config& config, const TrainingProgram& training, const Program& program,
    const std::function<TrainingProgram(const Config&)>& plan);

}  // namespace recollect
