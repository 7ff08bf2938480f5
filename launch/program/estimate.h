// What a run would hold and how long a step would take, from the very program that the run would execute: it
// is planned for ranks that do not exist, and no memory is reserved for its values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpointing/simulator.h"
#include "launch/config/config.h"
#include "launch/program/layer_choices.h"
#include "launch/program/parameter_bytes.h"
#include "launch/program/resident_memory.h"
#include "launch/program/training_program.h"
#include "parallel/mesh.h"

namespace recollect {

// Fits the configuration to the ranks that it asks for: tensor x data of them, and one data replica where it
// does not say.
void resolve_planned_world(Config& config);

// One rank of a resolved configuration that is planned and never run. All ranks are taken to share this node, as far
// as threads go.
class PlannedRank {
 public:
  PlannedRank(const Config& config, int data_rank, int tensor_rank);

  const Mesh& mesh() const { return *mesh_; }
  // The program of this configuration, or of one that differs in activation_checkpointing alone. A refusal is the
  // caller's to look at. The rank must outlive it.
  TrainingProgram plan(const Config& config) const;
  // Error kConfiguration where a switch has no effect.
  TrainingProgram require_plan(const Config& config) const;
  // For shorter sequences, in the memory of `longest`, which this rank has planned, or in what is `reserved`.
  TrainingProgram plan_shorter(const Config& config, const BatchShape& shape, const TrainingProgram& longest,
                               const MemoryLedger* reserved = nullptr) const;
  // What the run reserves for all lengths.
  MemoryLedger reserve(const Config& config, const TrainingProgram& longest) const;

 private:
  int threads_;
  std::unique_ptr<Mesh> mesh_;  // the program's kernels point into it
  ModelGraph built_;
};

// Both at once. Error kConfiguration where a switch has no effect.
struct PlannedTraining {
  PlannedRank rank;
  TrainingProgram training;
};
PlannedTraining plan_training(const Config& config, int data_rank, int tensor_rank);

struct Wait {
  std::string op, waits_for;
  double seconds = 0;
};

// What the communicators of a rank hold outside the arenas, if the ranks talk like this.
struct CommunicationBuffers {
  CommunicatorKind communicator = CommunicatorKind::kSelf;
  uint64_t bytes = 0;
  bool operator==(const CommunicationBuffers&) const = default;
};

// A step all of whose micro-batches are padded to one length.
struct LengthEstimate {
  int64_t length = 0;
  uint64_t arena_bytes = 0;
  double step_seconds = 0;
};

struct Estimate {
  int64_t ranks = 1;
  std::string threads;  // that a rank is taken to have, on one node with all the others; empty off the CPU
  std::string mathematics;                                  // the library, where there are threads
  DeviceModel device;                                       // as one rank finds it
  std::string calibration;                                  // which rates those are
  std::vector<CommunicationBuffers> communication_buffers;  // the first is what everything else assumes
  uint64_t save_buffer =
      0;  // bytes of host memory beside the arenas, for a model or gradients that will be saved
  uint64_t snapshot_buffer = 0;  // the same for snapshots, of the rank that has most
  // Of a process with all the ranks that the configuration gives it, had it this one's size at its start; 0
  // where the device has memory of its own.
  ResidentMemory resident;
  ParameterBytes parameters;
  MemoryLedger memory;        // of every rank: all have the same
  MemoryLedger::Row after_forward{};  // on the device, when forward of the first micro-batch is over
  ResidencyReport residency;          // of one micro-batch
  GatheredAgain gathered;     // of one micro-batch, by sequence parallelism
  std::vector<Choice> choices;
  std::vector<Remark> remarks;
  std::vector<LayerChoices> layers;  // where a plan decides value by value
  double flops = 0;                  // of one micro-batch, recomputation included, without the optimizer
  double recomputed_flops = 0;
  Simulation simulation;
  std::vector<Wait> waits;  // exposed ones of a step, longest first
  // Some of those that sequences may be padded to, the longest, of which all else is, last; empty where there is one.
  std::vector<LengthEstimate> lengths = {};
};

enum class Ranks { kFirst, kFirstAndLast };

// On the device that the configuration names. `ranks`: whether the claim that all ranks have the same numbers
// is checked, by planning the last one too.
Estimate estimate(const Config& resolved, Ranks ranks = Ranks::kFirstAndLast);

// Whether anything of activation checkpointing is asked for, and the same run without it.
bool checkpoints(const Config& config);
Config without_checkpointing(const Config& config);

// A way to checkpoint, ready to be estimated.
struct Variant {
  std::string mode;
  bool partition = false, host = false, disk = false;
  Estimate estimate;
  bool fits = true;  // in device.memory_limit, and in the disk's
};

// All modes x {partition, host, disk where its path is given} that have an effect in this configuration, best
// first: what fits, then the fastest, then the smallest.
std::vector<Variant> compare_variants(const Config& resolved);

}  // namespace recollect
