#include "engine/ops/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace recollect {

namespace {

#if defined(__x86_64__)

// Asks the operating system for permission to use the AMX tile registers, which is required because they
// enlarge a thread's saved state. Returns true if it is granted.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures find_features() {
  const auto all = [](auto... has) { return (... && (has != 0)); };
  unsigned a = 0, b = 0, c = 0, d = 0;
  CpuFeatures features;
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    features.family = (a >> 8) & 15;
    features.model = ((a >> 4) & 15) | ((a >> 12) & 0xf0);
  }
  features.avx2 = all(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"),
                      __builtin_cpu_supports("bmi"), __builtin_cpu_supports("bmi2"));
  features.avx512 = all(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"),
                        __builtin_cpu_supports("avx512cd"), __builtin_cpu_supports("avx512dq"),
                        __builtin_cpu_supports("avx512vl"));
  unsigned leaves = 0;
  if (!__get_cpuid_count(7, 0, &leaves, &b, &c, &d)) return features;
  features.amx_reported = (d & (1U << 22)) != 0 && (d & (1U << 24)) != 0;
  features.amx_granted = features.amx_reported && may_use_tiles();
  features.avx512_bf16 =
      features.avx512 && leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1U << 5)) != 0;
  return features;
}

#else

CpuFeatures find_features() { return {}; }

#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = find_features();
  return features;
}

}  // namespace recollect
