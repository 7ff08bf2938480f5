// The programs of a run, one for each batch shape, and the memory that they share. Every shape is planned
// before memory is reserved. With training.compile lazy a shape gets its program when it first occurs, within
// the reserved memory. This happens between two steps, because its kernels are prepared in memory where other
// programs have their inputs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/runtime/executor.h"
#include "engine/runtime/step_recorder.h"
#include "launch/config/config.h"
#include "launch/program/rank_windows.h"
#include "launch/program/resident_memory.h"
#include "launch/program/training_program.h"
#include "launch/ranks/backend.h"
#include "parallel/mesh.h"

namespace recollect {

// Additions by tests: a change of every program before it runs, and a probe that observes the runs.
struct ProgramParts {
  std::function<void(TrainingProgram&)> edit_program = {};
  ExecutorProbe* probe = nullptr;
};

// A program with its executor.
struct ReadyProgram {
  TrainingProgram training;  // without its program, which the executor owns
  std::unique_ptr<Executor> executor;
  // Counts only training, not evaluations.
  int64_t micro_batches = 0;
  double seconds = 0;
};

// Predicted and measured memory of everything that has run, of all lengths.
struct MemorySoFar {
  MemoryLedger predicted, measured;
};

// The result of planning again, for the shape that decides.
struct Replanned {
  bool changed = false;
  double seconds_before = 0, seconds_now = 0;  // of a step, predicted by measured rates
  int64_t values = 0, saved_before = 0, saved_now = 0;
};

class ProgramCache {
 public:
  // Collective over the world of `mesh`. Reserves the memory for the shape that needs the most, and makes the
  // programs of all shapes, or only of the first, as training.compile says. `shapes` has at least one entry,
  // the largest first; the first decides on checkpointing for all smaller ones. Before anything is reserved,
  // throws kDeviceMemory, kHostMemory or kStorage if something does not fit, and kRanksDisagree if the plans
  // of the tensor ranks differ. Configuration, mesh, backend and probe must outlive the cache.
  ProgramCache(const Config& config, const Mesh& mesh, const Backend& backend,
               const std::vector<BatchShape>& shapes, ProgramParts parts = {});
  ~ProgramCache();

  // Allocates nothing if the shape has its program. Otherwise collective: throws kRanksDisagree if the tensor
  // ranks have different plans for it, and kInternal if a shape that the cache was not made for does not fit
  // into the memory.
  ReadyProgram& at(const BatchShape& shape);
  // Collective, between two steps, after the configuration has received measured op times
  // (Config::Device::measured). If another plan is faster by these times and fits into the reserved memory,
  // it replaces that of the first shape; all other shapes get new programs when they occur. Throws
  // kRanksDisagree if the ranks choose different plans.
  Replanned replan();
  // Programs that replan() has replaced. They will not run again.
  const std::vector<ReadyProgram>& retired() const { return retired_; }
  bool knows(const BatchShape& shape) const { return programs_.contains(shape); }
  const std::map<BatchShape, ReadyProgram>& all() const { return programs_; }
  // The program with the most memory among those that have trained; before the first step, that of the first
  // shape.
  const ReadyProgram& neediest() const;

  StepRecorder* recorder() const { return recorder_.get(); }  // of all programs; null without recording
  const ProgramMemory& memory() const { return *memory_; }
  // The reserved memory: that of the length that needs the most, whether it occurs or not.
  const MemoryLedger& needs() const { return needs_; }
  // For each phase the program that uses the most memory in it; empty if nothing has run.
  std::optional<MemorySoFar> memory_so_far() const;
  // The part of the constructor's time for arenas and executors.
  double reserving_seconds() const { return reserving_seconds_; }
  const ResidentMemory& resident() const { return resident_; }  // as predicted before anything was reserved

 private:
  // Without the executor.
  ReadyProgram make(const BatchShape& shape, const TakenOver& taken_over) const;
  void check_tensor_ranks_agree(const Checkpointed& checkpointed) const;
  void check_limits_of(const Program& first);
  void reserve(std::vector<ReadyProgram> planned);
  // A new program for the first shape; empty if none fits into the reserved memory.
  std::optional<ReadyProgram> plan_again() const;
  ReadyProgram& add(const BatchShape& shape, ReadyProgram planned);
  void share_memory(ReadyProgram& ready);

  const Config& config_;
  const Mesh& mesh_;
  const Backend& backend_;
  ProgramParts parts_;
  std::vector<BatchShape> shapes_;
  BatchShape first_;
  MemoryLedger needs_;  // of the shape that needs the most
  uint64_t snapshot_buffer_ = 0;
  ResidentMemory resident_;
  double reserving_seconds_ = 0;
  std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<ProgramMemory> memory_;
  // Windows in memory_; null if it is not on a GPU. The members below are destroyed first: streams and their
  // recordings.
  std::unique_ptr<RankWindows> windows_;
  std::map<BatchShape, ReadyProgram> programs_;
  std::vector<ReadyProgram> retired_;
};

}  // namespace recollect
