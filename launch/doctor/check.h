// What the doctor looks at, one file per group: each function examines and never fails. What cannot be found
// out, in a container without /proc, say, is a line that says so.
#pragma once

#include <string>
#include <vector>

#include "engine/io/system_files.h"
#include "engine/ops/cpu_features.h"

namespace recollect::doctor {

// kNone: what only a GPU needs, where there is none.
enum class Status { kOk, kWarn, kMissing, kNone };

struct Check {
  std::string name;
  Status status = Status::kOk;
  std::string found = "";
  std::string fix = "";  // what to do; empty where nothing is amiss
  bool needed = false;   // for training on the CPU
};

struct Group {
  std::string name;
  std::vector<Check> checks;
};

Group check_processor(const SystemFiles& files);
Group check_memory(const SystemFiles& files);
// Trains a tiny model with `program train`, and again on two ranks of mpirun: what is said of them is what
// they did. `program` is this one's file, or empty where the system does not say.
Group check_training(const SystemFiles& files, const std::string& program);
Group check_gpu(const SystemFiles& files);
Group check_disk(const std::string& folder);
Group check_tools();

// Further for tests.

// What mpirun's last words mean, as a check named "mpirun".
Check explain_mpirun(int status, const std::string& output);

// Of the processor's matrix tiles (AMX): "" where they are used, or the processor has none.
std::string why_tiles_are_hidden(const CpuFeatures& processor);

std::string gib(uint64_t bytes);

}  // namespace recollect::doctor
