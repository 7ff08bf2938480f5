// From configuration to program, in stages with values in between: the model's graph (model_graph.h), what is
// recomputed and moved in it (checkpointing/checkpoint.h), reduction and optimizer behind it, compiled for one
// backend. Training and estimation both start here, and share all of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpointing/checkpoint.h"
#include "engine/io/disk_store.h"
#include "engine/ops/ops.h"
#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/program.h"
#include "launch/config/config.h"
#include "launch/program/model_graph.h"
#include "parallel/mesh.h"
#include "parallel/optimizer_step.h"

namespace recollect {

struct TrainingProgram {
  std::shared_ptr<const OpRegistry> registry;       // the graph's ops point into it
  std::unique_ptr<VocabularyReduction> vocabulary;  // the kernels point to it
  std::shared_ptr<DiskStore> disk;  // they point to it too; null where nothing goes to the disk. Not open yet
  std::shared_ptr<DiskStore> state_disk;  // likewise, of optimizer states
  Model model;
  Checkpointed checkpointed;  // with a refusal there is no program
  DeviceModel device;  // by which all is decided
  DeviceModel shown;   // by which times are told
  std::vector<Remark> remarks;  // those on checkpointing among them
  std::string threads;          // of a rank and their instruction set, where kernels take scratch for each
  OptimizerHandles optimizer;
  Program program;
};

// As a rank finds it.
DeviceModel device_of(const Config& config);
// The same by the rates of this machine, where they are known and the model's are of none.
DeviceModel shown_device_of(const Config& config);

// The first stages: what does not depend on activation_checkpointing. `decided` is what a larger shape of the same run
// has settled, null for the first.
ModelGraph build_training_graph(const Config& config, const Mesh& mesh, const BatchShape& shape,
                                const Checkpointed* decided = nullptr);

// What a program takes over from one that the same run has already. They share the disks. One for longer sequences
// has decided on checkpointing for this one too.
struct TakenOver {
  std::shared_ptr<DiskStore> disk = nullptr;
  std::shared_ptr<DiskStore> state_disk = nullptr;
  const Checkpointed* decided = nullptr;  // null: nothing is decided
  const Layout* larger = nullptr;
  const MemoryLedger* reserved = nullptr;  // for a plan of its own; null: what the larger one takes
};

// All stages. Error kConfiguration where a switch of activation_checkpointing has no effect. `mesh` must outlive the
// program, and so must what `kernels`, those of the rank's backend, are made of.
TrainingProgram make_training_program(const Config& config, const Mesh& mesh, const RegisterKernels& kernels,
                                      const BatchShape& shape, const TakenOver& taken_over = {});

// The same program to predict with, from the graph that the first stages have made: it has no kernels. A refusal is
// the caller's to look at.
TrainingProgram plan_training_program(const Config& config, const Mesh& mesh, const ModelGraph& built,
                                      const TakenOver& taken_over = {});

// What must be reserved for a shorter shape, found without a search: with the decisions that are taken over. Only where
// those exceed memory_budget is a plan made for it. Throws its refusal.
MemoryLedger plan_memory(const Config& config, const Mesh& mesh, const ModelGraph& built,
                         const TakenOver& taken_over);

}  // namespace recollect
