// All that a rank says of its run: what it was predicted to hold and what it held, what each switch of
// activation checkpointing did, how long steps took, and one step op by op. Made while the run goes on,
// written to `memory.rankN.json` (rank_report_json.h), and the same again when read from there: tables, pages
// and traces are made of nothing else.
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

// For whoever reads it; the same on all ranks.
struct RunDescription {
  std::string name;           // the output folder
  std::string model;          // "TYPE: 842496 parameters, fp32, backend cpu"
  std::string layout;         // "1 data x 2 tensor ranks (mpi), each 4 threads of avx512, libm of glibc 2.36"
  std::string batch;          // "8 sequences of 128 = 1 micro-batches of 8 on each data rank"
  std::string checkpointing;  // "mode full, partition_activations"
  bool operator==(const RunDescription&) const = default;
};

// Before the first step, for the neediest of all lengths that sequences can be padded to.
struct ReservedMemory {
  uint64_t arena_predicted = 0;
  uint64_t arena = 0, host = 0, disk = 0;
  bool operator==(const ReservedMemory&) const = default;
};

ReservedMemory reserved_for(const MemoryLedger& needs);

// What the same run would take without activation checkpointing, of the longest sequences.
struct Uncheckpointed {
  uint64_t peak = 0;     // bytes of the device
  double step = 0;       // seconds, predicted
  double with_step = 0;  // those of the run itself, by the same device model
  bool operator==(const Uncheckpointed&) const = default;
};

// What is known of a run when it begins, and stays so.
struct RunStart {
  int64_t began = 0;  // seconds since 1970, by this rank's clock; 0: it has not begun
  std::optional<Uncheckpointed> uncheckpointed =
      {};                 // where something is checkpointed, and on the first rank alone
  StartTimes times = {};  // this rank's
  bool operator==(const RunStart&) const = default;
};

struct RankReport {
  int rank = 0, ranks = 1;
  RunDescription run;
  RunStart start;
  int64_t max_steps = 0, steps_done = 0;
  ReservedMemory reserved;
  MemoryLedger predicted;                // of what has run, and before that of all lengths
  std::optional<MemoryLedger> measured;  // once something has run
  uint64_t communication_buffers = 0;    // of the communicators, in the host's memory
  // In use on the device beside this rank's arena, measured: by the driver, by libraries and communicators,
  // by other ranks and programs. 0 where memory is the host's.
  uint64_t beside_arena = 0;
  uint64_t device_communicators = 0;  // of it, this rank's communicators, where they say
  ResidentMemory resident;            // of its process; where memory is the host's
  std::vector<SwitchEffect> switches;
  std::vector<SwitchSentence> sentences;
  StepReport step;
  std::vector<LengthReport> lengths;  // where sequences may be padded to several, and some have trained
  Timeline timeline;
};

// "1 data x 2 tensor ranks (mpi)"
std::string ranks_text(const Config& config, const Mesh& mesh);
RunDescription describe(const Config& config, const Mesh& mesh, const TrainingProgram& training);

// What can be said before anything runs. `training` may have given `program` away. `needs`: what the run reserves.
RankReport predict(const Config& config, const Mesh& mesh, const TrainingProgram& training,
                   const Program& program, const MemoryLedger& needs);
// With what has been measured so far.
RankReport report_of(const Config& config, const Measurements& measured, const RunStart& start = {});

// None where nothing is checkpointed, or such a run cannot be planned. `training` may have given `program` away; `plan`: that of
// a configuration that differs in activation_checkpointing alone.
std::optional<Uncheckpointed> predict_uncheckpointed(
    const Config& config, const TrainingProgram& training, const Program& program,
    const std::function<TrainingProgram(const Config&)>& plan);

}  // namespace recollect
