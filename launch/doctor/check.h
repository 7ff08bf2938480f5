// The checks of `recollect doctor`, one file for each group. A check never fails itself: if something cannot
// be determined, for example in a container without /proc, its line says so.
#pragma once

#include <string>
#include <vector>

#include "engine/io/system_files.h"
#include "engine/ops/cpu_features.h"

namespace recollect::doctor {

// kNone: needed only with a GPU, and there is none.
enum class Status { kOk, kWarn, kMissing, kNone };

struct Check {
  std::string name;
  Status status = Status::kOk;
  std::string found = "";
  std::string fix = "";  // what to do; empty if all is well
  bool needed = false;   // needed for training on the CPU
};

struct Group {
  std::string name;
  std::vector<Check> checks;
};

Group check_processor(const SystemFiles& files);
Group check_memory(const SystemFiles& files);
// Trains a tiny model with `program train`, alone and on two ranks of mpirun, and reports the results.
// `program` is the path of this program, or empty if the system does not tell it.
Group check_training(const SystemFiles& files, const std::string& program);
Group check_gpu(const SystemFiles& files);
Group check_disk(const std::string& folder);
Group check_tools();

// The following are public only for tests.

// Explains the output of a failed mpirun.
Check explain_mpirun(int status, const std::string& output);

// Why the processor's matrix tiles (AMX) are not used: "" if they are, or if it has none.
std::string why_tiles_are_hidden(const CpuFeatures& processor);

std::string gib(uint64_t bytes);

}  // namespace recollect::doctor
