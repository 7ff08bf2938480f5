// What the system says in files of /proc and /sys: limits of control groups above all. What cannot be found
// out, in a container without /proc, say, is nothing rather than an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace recollect {

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

// Cores that a control group may use at once, and where its files lie.
struct CoreQuota {
  std::string group;
  double cores = 0;
};
// Of the groups around this process the one that allows the fewest, the outermost of several; nothing where
// there is no limit.
std::optional<CoreQuota> core_quota(const SystemFiles& files);
// Bytes that it may hold; likewise.
std::optional<uint64_t> memory_limit(const SystemFiles& files);
// Of these, bytes that nobody holds yet; what the system keeps of files, it would give back.
std::optional<uint64_t> memory_left(const SystemFiles& files);
// Bytes that the machine has, or what memory_limit() leaves of them.
std::optional<uint64_t> memory_of_machine(const SystemFiles& files);
// The first word with this key in a text of "key: value" lines, in bytes where "kB" follows.
std::optional<uint64_t> meminfo(const std::string& text, const std::string& key);

}  // namespace recollect
