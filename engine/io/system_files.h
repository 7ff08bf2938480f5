// Reads facts about the system from files in /proc and /sys, mainly the limits of control groups. A fact that
// cannot be found out, for example in a container without /proc, is empty rather than an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace recollect {

// The system's files; tests use another root.
class SystemFiles {
 public:
  explicit SystemFiles(std::string root = "") : root_(std::move(root)) {}
  // Returns nothing if the file cannot be read.
  std::optional<std::string> read(const std::string& path) const;
  bool exists(const std::string& path) const;

 private:
  std::string root_;
};

// The number of cores that a control group may use at once, and the folder of the group.
struct CoreQuota {
  std::string group;
  double cores = 0;
};
// Returns the lowest quota of the groups around this process, and the outermost group that has it; nothing if
// there is no limit.
std::optional<CoreQuota> core_quota(const SystemFiles& files);
// Returns the bytes that the groups may hold; nothing if there is no limit.
std::optional<uint64_t> memory_limit(const SystemFiles& files);
// Returns the bytes of that limit that are still free. File caches count as free, because the system would
// release them.
std::optional<uint64_t> memory_left(const SystemFiles& files);
// Returns the machine's memory in bytes, or memory_limit() if that is less.
std::optional<uint64_t> memory_of_machine(const SystemFiles& files);
// Returns the number of the line "key: value" with this key, in bytes if "kB" follows.
std::optional<uint64_t> meminfo(const std::string& text, const std::string& key);

}  // namespace recollect
