#include "launch/ranks/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <omp.h>

#include "engine/io/node.h"

namespace recollect {

namespace {

static_assert(kMostCores == CPU_SETSIZE);

constexpr double kRounding = 1e-6;  // error of a sum of fractions of a core

uint64_t text_digest(const std::string& text) { return std::hash<std::string>()(text); }

// The boot id tells nodes apart whose host names are equal, such as "localhost".
std::string name_of_node(const SystemFiles& files) {
  return host_name() + files.read("/proc/sys/kernel/random/boot_id").value_or("");
}

}  // namespace

std::bitset<kMostCores> allowed_cores() {
  std::bitset<kMostCores> cores;
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;  // fails on a node with more cores
  const auto online = static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  for (std::size_t core = 0; core < kMostCores; ++core)
    cores[core] = known ? CPU_ISSET(core, &allowed) != 0 : core < online;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (const int id : ids)
      if (static_cast<std::size_t>(id) < kMostCores) cores.set(static_cast<std::size_t>(id));
  }
  return cores;
}

int usable_cores() { return within_quota(static_cast<int>(allowed_cores().count()), SystemFiles()); }

CoreClaim core_claim(const SystemFiles& files, int ranks_on_node) {
  const std::string node = name_of_node(files);
  CoreClaim claim{.node = text_digest(node),
                  .ranks = ranks_on_node,
                  .most_threads = omp_get_thread_limit(),
                  .cores = allowed_cores()};
  if (const std::optional<CoreQuota> quota = core_quota(files)) {
    claim.group = text_digest(node + quota->group);
    claim.quota = quota->cores;
  }
  return claim;
}

int share_of_cores(const std::vector<CoreClaim>& claims, int rank) {
  const CoreClaim& mine = claims[static_cast<std::size_t>(rank)];
  std::vector<const CoreClaim*> here;
  for (const CoreClaim& claim : claims)
    if (claim.node == mine.node) here.push_back(&claim);
  const auto sharers = [&](const auto& shares) {
    const int64_t count = std::count_if(here.begin(), here.end(), shares);
    return static_cast<double>(std::min(count, std::max<int64_t>(1, mine.ranks)));
  };
  double share = 0;
  for (std::size_t core = 0; core < kMostCores; ++core)
    if (mine.cores[core]) share += 1 / sharers([&](const CoreClaim* other) { return other->cores[core]; });
  if (mine.quota > 0)
    share = std::min(share, mine.quota / sharers([&](const CoreClaim* other) {
                              return other->quota > 0 && other->group == mine.group;
                            }));
  return std::max(1, static_cast<int>(std::floor(share + kRounding)));
}

bool is_bound_by_default(const EnvironmentLookup& lookup) {
  constexpr const char* kAskedFor[] = {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_list",
                                       "OMPI_MCA_hwloc_base_cpu_set", "OMPI_MCA_rmaps_base_mapping_policy",
                                       "OMPI_MCA_orte_rankfile"};
  return lookup("OMPI_MCA_orte_bound_at_launch") &&
         std::none_of(std::begin(kAskedFor), std::end(kAskedFor),
                      [&](const char* name) { return lookup(name); });
}

// Looks at all ancestors, because a script or Python may be between the launcher and this process.
std::optional<int> find_open_mpi(const SystemFiles& files, int process) {
  while (process > 0) {
    const std::string text = files.read(fmt::format("/proc/{}/stat", process)).value_or("");
    const std::size_t open = text.find('('), close = text.rfind(')');  // "PROCESS (NAME) STATE PARENT ..."
    if (open == std::string::npos || close == std::string::npos) return std::nullopt;
    const std::string name = text.substr(open + 1, close - open - 1);
    for (const char* launcher : {"mpirun", "mpiexec", "orterun", "orted"})
      if (name.starts_with(launcher)) return process;
    std::istringstream rest(text.substr(close + 1));
    std::string state;
    if (!(rest >> state >> process)) return std::nullopt;
  }
  return std::nullopt;
}

void undo_default_binding() {
  if (!is_bound_by_default([](const char* name) -> const char* { return std::getenv(name); })) return;
  const std::optional<int> launcher = find_open_mpi(SystemFiles(), ::getppid());
  cpu_set_t cores;
  if (launcher && sched_getaffinity(*launcher, sizeof cores, &cores) == 0)
    sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace recollect
