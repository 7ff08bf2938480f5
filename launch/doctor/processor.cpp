// Checks the instructions of the processor, those that this program was compiled for, and the available
// cores.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>
#include <omp.h>

#include "engine/io/node.h"
#include "engine/ops/cpu_level.h"
#include "launch/doctor/check.h"
#include "launch/ranks/cores.h"

namespace recollect::doctor {

namespace {

std::string list(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// Kernels are chosen at run time among those in this program; all other code is compiled for one instruction
// set.
Check instructions() {
  constexpr CpuIsa kSets[] = {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx};
  std::vector<std::string> here, kernels, unused;
  for (const CpuLevel& level : cpu_levels()) kernels.emplace_back(name_of(level.isa));
  const CpuIsa best = cpu_level().isa;
  for (const CpuIsa isa : kSets) {
    if (!can_run(isa)) continue;
    here.emplace_back(name_of(isa));
    if (isa > best) unused.emplace_back(name_of(isa));
  }
  Check check{.name = "instructions", .found = "", .needed = true};
#if !defined(__x86_64__)
  check.found = "not an x86-64 processor: nothing is known of its vector units";
  return check;
#endif
  check.found = fmt::format("the processor has {}; there are kernels for {}; a run uses {}", list(here),
                            list(kernels), name_of(best));
  if (const CpuIsa all = program_isa(); !can_run(all)) {
    check.status = Status::kMissing;
    check.fix =
        fmt::format("it will stop with an illegal instruction ({}): build it on this machine", name_of(all));
  } else if (!unused.empty()) {
    check.status = Status::kWarn;
    check.fix =
        fmt::format("{} would go unused: build on this machine, or with RECOLLECT_LEVELS", list(unused));
  } else if (const std::string hidden = why_tiles_are_hidden(cpu_features()); !hidden.empty()) {
    check.status = Status::kWarn;
    check.fix = hidden;
  } else if (here.empty()) {
    check.status = Status::kWarn;
    check.fix = "without AVX2 it trains, slowly";
  }
  return check;
}

Check cores(const SystemFiles& files) {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto bound = static_cast<long>(allowed_cores().count());
  const std::optional<CoreQuota> limit = core_quota(files);
  Check check{.name = "cores", .found = fmt::format("{}", online)};
  if (bound < online) check.found += fmt::format("; this process is bound to {}", bound);
  check.found += limit ? fmt::format("; the control group allows {:.2f} at once", limit->cores)
                       : "; no limit from a control group";
  if (const int usable = within_quota(static_cast<int>(bound), files); usable < online)
    check.found += fmt::format("; ranks have {} together", usable);
  if (limit && limit->cores < 1) {
    check.status = Status::kWarn;
    check.fix = "even one thread is stopped now and then: raise the group's limit (docker run --cpus)";
  }
  return check;
}

Check threads() {
  const auto say = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? fmt::format("; {}={}", name, value) : std::string();
  };
  const int most = omp_get_thread_limit();
  Check check{.name = "OpenMP threads", .found = fmt::format("{}", omp_get_num_procs())};
  check.found += say("OMP_NUM_THREADS") + say("OMP_THREAD_LIMIT") + say("OMP_PROC_BIND");
  if (most < omp_get_num_procs()) {
    check.status = Status::kWarn;
    check.fix = fmt::format("kernels get no more than {}: unset OMP_THREAD_LIMIT", most);
  } else if (const char* bind = std::getenv("OMP_PROC_BIND"); bind && std::string(bind) != "false") {
    check.status = Status::kWarn;
    check.fix = "several ranks of a machine would bind their threads to the same cores: unset OMP_PROC_BIND";
  }
  return check;
}

}  // namespace

// Models of Intel's family 6: Sapphire Rapids, Emerald Rapids, Granite Rapids and Granite Rapids-D.
std::string why_tiles_are_hidden(const CpuFeatures& processor) {
  constexpr unsigned kWithTiles[] = {0x8f, 0xcf, 0xad, 0xae};
  if (processor.amx_granted) return "";
  if (processor.amx_reported)
    return "the processor has AMX, and the system does not give it to programs: Linux 5.16 or newer does. "
           "Without it "
           "bf16 is multiplied at the speed of fp32";
  if (processor.family == 6 && std::count(std::begin(kWithTiles), std::end(kWithTiles), processor.model) > 0)
    return "processors of this model have AMX, and this machine hides it: the virtual machine's CPU model, "
           "or a kernel "
           "parameter (clearcpuid), takes it away. Without it bf16 is multiplied at the speed of fp32";
  return "";
}

Group check_processor(const SystemFiles& files) {
  return {"processor", {instructions(), cores(files), threads()}};
}

}  // namespace recollect::doctor
