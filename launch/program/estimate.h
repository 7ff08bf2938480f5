// Predicts the memory of a run and the time of its steps from the same program that the run would execute.
// The program is planned for ranks that do not exist, and no memory is reserved for its values.
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

// Resolves the configuration for tensor x data ranks, with one data rank if it sets no number.
void resolve_planned_world(Config& config);

// One rank of a resolved configuration that is planned and never run. For the number of threads all ranks are
// assumed to share this node.
class PlannedRank {
 public:
  PlannedRank(const Config& config, int data_rank, int tensor_rank);

  const Mesh& mesh() const { return *mesh_; }
  // The program of this configuration, or of one that differs only in activation_checkpointing. The caller
  // must check for a refusal. The rank must outlive the program.
  TrainingProgram plan(const Config& config) const;
  // Error kConfiguration where a switch has no effect.
  TrainingProgram require_plan(const Config& config) const;
  // The program for shorter sequences, within the memory of `longest`, which this rank has planned, or within
  // `reserved`.
  TrainingProgram plan_shorter(const Config& config, const BatchShape& shape, const TrainingProgram& longest,
                               const MemoryLedger* reserved = nullptr) const;
  // The memory that the run reserves for all lengths.
  MemoryLedger reserve(const Config& config, const TrainingProgram& longest) const;

 private:
  int threads_;
  std::unique_ptr<Mesh> mesh_;  // the program's kernels refer to it
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

// The memory of a rank's communicators outside of the arenas, for one kind of communicator.
struct CommunicationBuffers {
  CommunicatorKind communicator = CommunicatorKind::kSelf;
  uint64_t bytes = 0;
  bool operator==(const CommunicationBuffers&) const = default;
};

// The estimate of a step with all micro-batches padded to one length.
struct LengthEstimate {
  int64_t length = 0;
  uint64_t arena_bytes = 0;
  double step_seconds = 0;
};

struct Estimate {
  int64_t ranks = 1;
  std::string threads;      // of a rank, with all ranks on one node; empty if not on the CPU
  std::string mathematics;  // the library, if there are threads
  DeviceModel device;       // as seen by one rank
  std::string calibration;  // the source of its rates
  std::vector<CommunicationBuffers> communication_buffers;  // all other numbers assume the first
  uint64_t save_buffer = 0;  // bytes of host memory outside of the arenas, for saving a model or gradients
  uint64_t snapshot_buffer = 0;  // the same for snapshots, on the rank with the most
  // Of a process with all its ranks, assuming that it starts with the size of this process; 0 if the device
  // has its own memory.
  ResidentMemory resident;
  ParameterBytes parameters;
  MemoryLedger memory;                // of each rank: all are equal
  MemoryLedger::Row after_forward{};  // on the device, after the first forward
  ResidencyReport residency;          // of one micro-batch
  GatheredAgain gathered;             // of one micro-batch, by sequence parallelism
  std::vector<Choice> choices;
  std::vector<Remark> remarks;
  std::vector<LayerChoices> layers;  // if a plan decides for single values
  double flops = 0;                  // of a micro-batch with recomputation, without the optimizer
  double recomputed_flops = 0;
  Simulation simulation;
  std::vector<Wait> waits;  // exposed waits of a step, longest first
  // Some of the lengths that sequences may be padded to. The longest, for which all other numbers hold, is
  // last. Empty if there is only one length.
  std::vector<LengthEstimate> lengths = {};
};

enum class Ranks { kFirst, kFirstAndLast };

// Estimates on the device that the configuration names. With kFirstAndLast the last rank is planned too, to
// check that all ranks have the same numbers.
Estimate estimate(const Config& resolved, Ranks ranks = Ranks::kFirstAndLast);

// Whether the configuration uses activation checkpointing; and the same configuration without it.
bool checkpoints(const Config& config);
Config without_checkpointing(const Config& config);

// A combination of activation checkpointing settings and its estimate.
struct Variant {
  std::string mode;
  bool partition = false, host = false, disk = false;
  Estimate estimate;
  bool fits = true;  // within device.memory_limit and the disk's limit
};

// All modes x {partition, host, disk if its path is set} that have an effect in this configuration. Variants
// that fit come first, then the fastest, then the smallest.
std::vector<Variant> compare_variants(const Config& resolved);

}  // namespace recollect
