#include "engine/io/system_files.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace recollect {

namespace {

constexpr std::size_t kMostText = 1 << 20;
constexpr double kNoLimit = 1e18;  // bytes; version 1 writes nearly 2^63 for "none"

// Splits "a:b" at the first colon, or another character.
std::pair<std::string, std::string> split(const std::string& line, char at) {
  const std::size_t place = line.find(at);
  if (place == std::string::npos) return {line, ""};
  return {line.substr(0, place), line.substr(place + 1)};
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end != text.data() ? std::optional(value) : std::nullopt;
}

// Returns the folders with the files of this process's control groups: of version 2, or of version 1's
// `controller`. The group itself comes first, then its parents, whose limits apply too. In a container the
// group's own path often does not exist; the mount's root is then the group.
std::vector<std::string> group_folders(const SystemFiles& files, const std::string& controller) {
  const bool first_version = !controller.empty();
  const std::string mount = "/sys/fs/cgroup" + (first_version ? "/" + controller : "");
  std::string path;
  std::istringstream lines(files.read("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto [names, where] = split(split(line, ':').second, ':');
    if (first_version ? ("," + names + ",").find("," + controller + ",") != std::string::npos : names.empty())
      path = where;
  }
  std::vector<std::string> folders;
  for (std::filesystem::path at = path; at.has_relative_path(); at = at.parent_path())
    folders.push_back(mount + at.string());
  folders.push_back(mount);
  return folders;
}

struct GroupLimit {
  std::string folder;
  double amount = 0;
};

// Returns the lowest limit of all groups, and the outermost group that has it.
template <typename Read>
std::optional<GroupLimit> least(const SystemFiles& files, const std::string& controller, const Read& read) {
  std::optional<GroupLimit> found;
  for (const std::string& folder : group_folders(files, controller))
    if (const std::optional<double> limit = read(folder); limit && (!found || *limit <= found->amount))
      found = GroupLimit{folder, *limit};
  return found;
}

}  // namespace

std::optional<std::string> SystemFiles::read(const std::string& path) const {
  std::ifstream file(root_ + path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  for (char c; text.size() < kMostText && file.get(c);) text += c;
  return file.bad() ? std::nullopt : std::optional(text);  // bad: it is a folder
}

bool SystemFiles::exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(root_ + path, error);
}

std::optional<CoreQuota> core_quota(const SystemFiles& files) {
  const auto quota = [&](const std::string& allowed, const std::string& period) -> std::optional<double> {
    const std::optional<double> of = number(allowed), in = number(period);
    if (!of || !in || *of <= 0 || *in <= 0) return std::nullopt;
    return *of / *in;
  };
  std::optional<GroupLimit> found = least(files, "", [&](const std::string& folder) {
    const auto [allowed, period] = split(files.read(folder + "/cpu.max").value_or(""), ' ');
    return quota(allowed, period);
  });
  if (!found)
    found = least(files, "cpu", [&](const std::string& folder) {
      return quota(files.read(folder + "/cpu.cfs_quota_us").value_or(""),
                   files.read(folder + "/cpu.cfs_period_us").value_or(""));
    });
  return found ? std::optional(CoreQuota{found->folder, found->amount}) : std::nullopt;
}

std::optional<uint64_t> memory_limit(const SystemFiles& files) {
  const auto limit = [&](const char* name) {
    return [&files, name](const std::string& folder) -> std::optional<double> {
      const std::optional<double> bytes = number(files.read(folder + "/" + name).value_or(""));
      return bytes && *bytes >= 0 && *bytes < kNoLimit ? bytes : std::nullopt;
    };
  };
  std::optional<GroupLimit> found = least(files, "", limit("memory.max"));
  if (!found) found = least(files, "memory", limit("memory.limit_in_bytes"));
  return found ? std::optional(static_cast<uint64_t>(found->amount)) : std::nullopt;
}

std::optional<uint64_t> memory_of_machine(const SystemFiles& files) {
  const std::optional<uint64_t> limit = memory_limit(files),
                                all = meminfo(files.read("/proc/meminfo").value_or(""), "MemTotal");
  return limit && all ? std::optional(std::min(*limit, *all)) : limit ? limit : all;
}

std::optional<uint64_t> memory_left(const SystemFiles& files) {
  struct Version {
    const char *controller, *limit, *used, *reclaimable[3];
  };
  constexpr Version kVersions[] = {
      {"", "memory.max", "memory.current", {"active_file", "inactive_file", "slab_reclaimable"}},
      {"memory",
       "memory.limit_in_bytes",
       "memory.usage_in_bytes",
       {"total_active_file", "total_inactive_file", ""}}};
  for (const Version& version : kVersions) {
    const auto left = [&](const std::string& folder) -> std::optional<double> {
      const auto read = [&](const char* name) {
        return number(files.read(folder + "/" + name).value_or(""));
      };
      const std::optional<double> limit = read(version.limit), used = read(version.used);
      if (!limit || *limit < 0 || *limit >= kNoLimit || !used) return std::nullopt;
      std::istringstream statistics(files.read(folder + "/memory.stat").value_or(""));
      double held = *used;
      for (std::string line; std::getline(statistics, line);)
        for (const char* name : version.reclaimable)
          if (const auto [key, bytes] = split(line, ' '); key == name) held -= number(bytes).value_or(0);
      return std::max(0.0, *limit - std::max(0.0, held));
    };
    if (const std::optional<GroupLimit> found = least(files, version.controller, left))
      return static_cast<uint64_t>(found->amount);
  }
  return std::nullopt;
}

std::optional<uint64_t> meminfo(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ":")) continue;
    std::istringstream rest(line.substr(key.size() + 1));
    uint64_t value = 0;
    std::string unit;
    if (!(rest >> value)) return std::nullopt;
    rest >> unit;
    return unit == "kB" ? value << 10 : value;
  }
  return std::nullopt;
}

}  // namespace recollect
