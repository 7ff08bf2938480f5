// Compiles a configuration to a program in stages: the model's graph (model_graph.h), activation
// checkpointing in it (checkpointing/checkpoint.h), gradient reduction and optimizer after it, and
// compilation for one backend. Training and estimation both use this and share all of it.
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
  std::shared_ptr<const OpRegistry> registry;       // the graph's ops refer to it
  std::unique_ptr<VocabularyReduction> vocabulary;  // the kernels refer to it
  std::shared_ptr<DiskStore> disk;                  // kernels refer to it; null without disk; not open yet
  std::shared_ptr<DiskStore> state_disk;            // the same for optimizer states
  Model model;
  Checkpointed checkpointed;    // if it holds a refusal, there is no program
  DeviceModel device;           // used for all decisions
  DeviceModel shown;            // used for printed times
  std::vector<Remark> remarks;  // including those on checkpointing
  std::string threads;          // of a rank, with instruction set, if kernels use scratch per thread
  OptimizerHandles optimizer;
  Program program;
};

// The device model of a rank.
DeviceModel device_of(const Config& config);
// The same with the rates of this machine, if they are known and the model describes no particular machine.
DeviceModel shown_device_of(const Config& config);

// The first stages, which do not depend on activation_checkpointing. `decided` holds the decisions for a
// larger shape of the same run; null for the first shape.
ModelGraph build_training_graph(const Config& config, const Mesh& mesh, const BatchShape& shape,
                                const Checkpointed* decided = nullptr);

// What a program reuses from an earlier program of the same run. They share the disks. The program for longer
// sequences has decided on checkpointing for this one too.
struct TakenOver {
  std::shared_ptr<DiskStore> disk = nullptr;
  std::shared_ptr<DiskStore> state_disk = nullptr;
  const Checkpointed* decided = nullptr;  // null: undecided
  const Layout* larger = nullptr;
  const MemoryLedger* reserved = nullptr;  // limit for a separate plan; null: the memory of `larger`
};

// All stages. Throws kConfiguration if a switch of activation_checkpointing has no effect. `kernels` are
// those of the rank's backend. `mesh`, and the objects that `kernels` refer to, must outlive the program.
TrainingProgram make_training_program(const Config& config, const Mesh& mesh, const RegisterKernels& kernels,
                                      const BatchShape& shape, const TakenOver& taken_over = {});

// The same program without kernels, for predictions, from the graph of the first stages. The caller must
// check for a refusal.
TrainingProgram plan_training_program(const Config& config, const Mesh& mesh, const ModelGraph& built,
                                      const TakenOver& taken_over = {});

// The memory to reserve for a shorter shape. It uses the reused decisions without a search; only if these
// exceed memory_budget, a plan is made for the shape. Throws its refusal.
MemoryLedger plan_memory(const Config& config, const Mesh& mesh, const ModelGraph& built,
                         const TakenOver& taken_over);

}  // namespace recollect
