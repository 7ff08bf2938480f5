// What the doctor looks at, one file per group: each function examines and never fails. What cannot be found
// out, in a container without /proc, say, is a line that says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace recollect::doctor {

enum class Status { kOk, kWarn, kMissing };

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

// Files of the system, below another root in tests.
class SystemFiles {
 public:
  explicit SystemFiles(std::string root = "") : root_(std::move(root)) {}
  // Nothing where it cannot be read.
  std::optional<std::string> read(const std::string& path) const;
  bool exists(const std::string& path) const;

 private:
  std::string root_;
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

// Cores that the control group of this process may use at once; nothing where there is no limit.
std::optional<double> core_limit(const SystemFiles& files);
// Bytes that it may hold; likewise.
std::optional<uint64_t> memory_limit(const SystemFiles& files);
// Of these, bytes that nobody holds yet; what the system keeps of files, it would give back.
std::optional<uint64_t> memory_left(const SystemFiles& files);
// The first word with this key in a text of "key: value" lines, in bytes where "kB" follows.
std::optional<uint64_t> meminfo(const std::string& text, const std::string& key);
// What mpirun's last words mean, as a check named "mpirun".
Check explain_mpirun(int status, const std::string& output);

std::string gib(uint64_t bytes);

}  // namespace recollect::doctor
