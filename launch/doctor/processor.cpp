// What the processor can do, what this program was compiled for, and how much of the machine is ours.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>
#include <omp.h>

#include "launch/doctor/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

namespace recollect::doctor {

namespace {

struct Feature {
  const char* name;
  bool here;      // the processor and the system have it
  bool compiled;  // this program uses it without asking
};

#if defined(__x86_64__)
#if defined(__AVX2__)
constexpr bool kAvx2 = true;
#else
constexpr bool kAvx2 = false;
#endif
#if defined(__AVX512F__)
constexpr bool kAvx512 = true;
#else
constexpr bool kAvx512 = false;
#endif
#if defined(__AVX512BF16__)
constexpr bool kAvx512Bf16 = true;
#else
constexpr bool kAvx512Bf16 = false;
#endif
#if defined(__AMX_BF16__)
constexpr bool kAmxBf16 = true;
#else
constexpr bool kAmxBf16 = false;
#endif

// Whether the kernel gives us tile registers; they are large, so it wants to be asked.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Tiles tiles_here() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  Tiles tiles;
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    tiles.family = (a >> 8) & 15;
    tiles.model = ((a >> 4) & 15) | ((a >> 12) & 0xf0);
  }
  tiles.reported = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & (1u << 22)) != 0 && (d & (1u << 24)) != 0;
  tiles.granted = tiles.reported && may_use_tiles();
  return tiles;
}

std::vector<Feature> features() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool leaf = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0;
  const bool more = leaf && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  return {{"AVX2", __builtin_cpu_supports("avx2") != 0, kAvx2},
          {"AVX-512", avx512, kAvx512},
          {"AVX-512 BF16", avx512 && more && (a & (1u << 5)) != 0, kAvx512Bf16},
          {"AMX BF16", tiles_here().granted, kAmxBf16}};
}
#else
Tiles tiles_here() { return {}; }
std::vector<Feature> features() { return {}; }
#endif

std::string list(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

Check instructions() {
  std::vector<std::string> here, compiled, lacking, unused;
  const std::vector<Feature> all = features();
  for (const Feature& f : all) {
    if (f.here) here.push_back(f.name);
    if (f.compiled) compiled.push_back(f.name);
    if (f.compiled && !f.here) lacking.push_back(f.name);
    if (f.here && !f.compiled) unused.push_back(f.name);
  }
  Check check{.name = "instructions", .found = "", .needed = true};
  if (all.empty()) {
    check.found = "not an x86-64 processor: nothing is known of its vector units";
    return check;
  }
  check.found =
      fmt::format("the processor has {}; this program is compiled for {}", list(here), list(compiled));
  if (!lacking.empty()) {
    check.status = Status::kMissing;
    check.fix =
        fmt::format("it will stop with an illegal instruction ({}): build it on this machine", list(lacking));
  } else if (!unused.empty()) {
    check.status = Status::kWarn;
    check.fix =
        fmt::format("{} would go unused: build on this machine, with RECOLLECT_NATIVE=ON", list(unused));
  } else if (here.empty()) {
    check.status = Status::kWarn;
    check.fix = "without AVX2 it trains, slowly";
  } else if (const std::string hidden = why_tiles_are_hidden(tiles_here()); !hidden.empty()) {
    check.status = Status::kWarn;
    check.fix = hidden;
  }
  return check;
}

Check cores(const SystemFiles& files) {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t allowed;
  const int bound = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  const std::optional<double> limit = core_limit(files);
  Check check{.name = "cores", .found = fmt::format("{}", online)};
  if (bound > 0 && bound < online) check.found += fmt::format("; this process is bound to {}", bound);
  check.found += limit ? fmt::format("; the control group allows {:.2f} at once", *limit)
                       : "; no limit from a control group";
  const double usable = limit ? std::min(*limit, static_cast<double>(online)) : static_cast<double>(online);
  if (usable < static_cast<double>(online)) {
    check.status = Status::kWarn;
    check.fix =
        fmt::format("threads would wait for each other: set device.threads to {} / ranks on this machine",
                    std::max(1, static_cast<int>(std::floor(usable))));
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

// Of Intel's family 6: Sapphire Rapids, Emerald Rapids, Granite Rapids and its smaller sister.
std::string why_tiles_are_hidden(const Tiles& tiles) {
  constexpr unsigned kWithTiles[] = {0x8f, 0xcf, 0xad, 0xae};
  if (tiles.granted) return "";
  if (tiles.reported)
    return "the processor has AMX, and the system does not give it to programs: Linux 5.16 or newer does. "
           "Without it "
           "bf16 is multiplied at the speed of fp32";
  if (tiles.family == 6 && std::count(std::begin(kWithTiles), std::end(kWithTiles), tiles.model) > 0)
    return "processors of this model have AMX, and this machine hides it: the virtual machine's CPU model, "
           "or a kernel "
           "parameter (clearcpuid), takes it away. Without it bf16 is multiplied at the speed of fp32";
  return "";
}

Group check_processor(const SystemFiles& files) {
  return {"processor", {instructions(), cores(files), threads()}};
}

}  // namespace recollect::doctor
