// The programs of a run, one for each shape of batch, and the memory that all of them run in. Every shape is planned
// before anything is reserved. With training.compile lazy it gets its program when it first comes, in the memory that is
// there: between two steps, since its kernels are prepared where other programs have their inputs.
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

// What tests add: a change of every program before it is run, and who watches them run.
struct ProgramParts {
  std::function<void(TrainingProgram&)> edit_program = {};
  ExecutorProbe* probe = nullptr;
};

// A program with what runs it.
struct ReadyProgram {
  TrainingProgram training;  // but for its program, which the executor has
  std::unique_ptr<Executor> executor;
  // What training has made of it: evaluations do not count.
  int64_t micro_batches = 0;
  double seconds = 0;
};

// Of all that has run, whatever its length: what its kernels were predicted to take and what they took.
struct MemorySoFar {
  MemoryLedger predicted, measured;
};

// What came of planning again, for the shape that decides.
struct Replanned {
  bool changed = false;
  double seconds_before = 0, seconds_now = 0;  // of a step, predicted by what was measured
  int64_t values = 0, saved_before = 0, saved_now = 0;
};

class ProgramCache {
 public:
  // Collective over the world of `mesh`. Reserves what the neediest of `shapes` wants, one at least and the largest
  // first, and makes the programs of all, or of the first alone, as training.compile says. The first decides on
  // checkpointing for all that are smaller. What cannot fit, on the device, the host or the disk, is refused before
  // anything is reserved: Error kDeviceMemory, kHostMemory, kStorage; and so are plans on which the tensor ranks do not
  // agree: Error kRanksDisagree. Configuration, mesh, backend and probe must outlive the cache.
  ProgramCache(const Config& config, const Mesh& mesh, const Backend& backend,
               const std::vector<BatchShape>& shapes, ProgramParts parts = {});
  ~ProgramCache();

  // Allocates nothing where the shape has its program. Otherwise collective; Error kRanksDisagree where the tensor ranks
  // have other plans for it, kInternal where a shape that the cache was not made for does not fit the memory.
  ReadyProgram& at(const BatchShape& shape);
  // Collective, between two steps, when the configuration has learned what ops take (Config::Device::measured). Where
  // another plan is faster by that, within what is reserved, it replaces the first shape's; all other shapes get their
  // programs anew when they come. Error kRanksDisagree where the ranks do not choose alike.
  Replanned replan();
  // Programs that replan() has replaced, and which will not run again.
  const std::vector<ReadyProgram>& retired() const { return retired_; }
  bool knows(const BatchShape& shape) const { return programs_.contains(shape); }
  const std::map<BatchShape, ReadyProgram>& all() const { return programs_; }
  // Of those that have trained the one that takes most memory; before that the first.
  const ReadyProgram& neediest() const;

  StepRecorder* recorder() const { return recorder_.get(); }  // of all programs; null where none is recorded
  const ProgramMemory& memory() const { return *memory_; }
  // Of the neediest of all lengths, whether they come or not: what is reserved.
  const MemoryLedger& needs() const { return needs_; }
  // By phase that of the program which takes most in it; nothing where nothing has run.
  std::optional<MemorySoFar> memory_so_far() const;
  // What arenas and executors took to be ready, of the constructor's time.
  double reserving_seconds() const { return reserving_seconds_; }
  const ResidentMemory& resident() const { return resident_; }  // as predicted before anything was reserved

 private:
  // But for the executor.
  ReadyProgram make(const BatchShape& shape, const TakenOver& taken_over) const;
  void check_tensor_ranks_agree(const Checkpointed& checkpointed) const;
  void check_limits_of(const Program& first);
  void reserve(std::vector<ReadyProgram> planned);
  // The first shape's; nothing where none fits what is reserved.
  std::optional<ReadyProgram> plan_again() const;
  ReadyProgram& add(const BatchShape& shape, ReadyProgram planned);
  void share_memory(ReadyProgram& ready);

  const Config& config_;
  const Mesh& mesh_;
  const Backend& backend_;
  ProgramParts parts_;
  std::vector<BatchShape> shapes_;
  BatchShape first_;
  MemoryLedger needs_;  // of the neediest of all shapes
  uint64_t snapshot_buffer_ = 0;
  ResidentMemory resident_;
  double reserving_seconds_ = 0;
  std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<ProgramMemory> memory_;
  // In that memory, null where it is no GPU's. What follows goes before them: streams, and all that they recorded.
  std::unique_ptr<RankWindows> windows_;
  std::map<BatchShape, ReadyProgram> programs_;
  std::vector<ReadyProgram> retired_;
};

}  // namespace recollect
