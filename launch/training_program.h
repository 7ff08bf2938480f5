// From configuration to program: model, gradients, their reduction, the optimizer, compiled for one backend.
// The one place where all folders meet; training and estimation both start here.
#pragma once

#include <memory>

#include "checkpointing/device_model.h"
#include "checkpointing/plan.h"
#include "checkpointing/recompute.h"
#include "checkpointing/residency.h"
#include "engine/graph/op_def.h"
#include "engine/io/disk_store.h"
#include "engine/ops/ops.h"
#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/program.h"
#include "launch/config/config.h"
#include "launch/switch_effects.h"
#include "parallel/gpt2.h"
#include "parallel/mesh.h"
#include "parallel/optimizer_step.h"

namespace recollect {

struct TrainingProgram {
  std::unique_ptr<OpRegistry> registry;             // the graph's ops point into it
  std::unique_ptr<VocabularyReduction> vocabulary;  // the kernels point to it
  std::unique_ptr<DiskStore> disk;  // they point to it too; null where nothing goes to the disk. Not open yet
  LanguageModel model;
  Plan plan;
  ResidencyReport residency;
  GatheredAgain gathered;  // by sequence parallelism
  DeviceModel device;
  ResidencySettings moves;      // what the configuration leaves open is decided
  std::vector<Choice> choices;  // of that, where anything moves
  std::vector<Remark> remarks;
  std::string threads;  // of a rank and their instruction set, where kernels take scratch for each
  OptimizerHandles optimizer;
  Program program;
};

// `mesh` must outlive the program, and so must `libraries`, which a program that is to run on CUDA needs.
TrainingProgram make_training_program(const Config& config, const Mesh& mesh,
                                      cuda::Libraries* libraries = nullptr);

// The same program to foretell with: it has no kernels.
TrainingProgram plan_training_program(const Config& config, const Mesh& mesh);

DType compute_dtype(Precision precision);

}  // namespace recollect
