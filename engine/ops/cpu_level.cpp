#include "engine/ops/cpu_level.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/ops/cpu_features.h"

namespace recollect {

namespace cpu {
const CpuLevel& level();
}
#ifdef RECOLLECT_LEVELS  // a line `LEVEL(name)` for each
#define LEVEL(name)          \
  namespace cpu_##name {     \
    const CpuLevel& level(); \
  }
#include "cpu_levels.inc"
#undef LEVEL
#endif

namespace {

std::vector<CpuLevel> all_levels() {
  std::vector<CpuLevel> levels = {cpu::level()};
#ifdef RECOLLECT_LEVELS
#define LEVEL(name) \
  if (cpu_##name::level().isa != levels.front().isa) levels.push_back(cpu_##name::level());
#include "cpu_levels.inc"
#undef LEVEL
#endif
  std::sort(levels.begin(), levels.end(), [](const CpuLevel& a, const CpuLevel& b) { return a.isa < b.isa; });
  return levels;
}

std::string names_of(const std::vector<CpuIsa>& sets) {
  std::vector<std::string_view> names;
  for (const CpuIsa isa : sets) names.push_back(name_of(isa));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::span<const CpuLevel> cpu_levels() {
  static const std::vector<CpuLevel> levels = all_levels();
  return levels;
}

CpuIsa program_isa() { return cpu::level().isa; }

bool can_run(CpuIsa isa) {
  const CpuFeatures& has = cpu_features();
  switch (isa) {
    case CpuIsa::kAuto:
    case CpuIsa::kBaseline:
      return true;
    case CpuIsa::kAvx2:
      return has.avx2;
    case CpuIsa::kAvx512:
      return has.avx2 && has.avx512;
    case CpuIsa::kAvx512Bf16:
      return has.avx2 && has.avx512 && has.avx512_bf16;
    case CpuIsa::kAmx:
      return has.avx2 && has.avx512 && has.avx512_bf16 && has.amx_granted;
  }
  return false;
}

const CpuLevel& cpu_level(CpuIsa isa) {
  const std::span<const CpuLevel> levels = cpu_levels();
  if (isa == CpuIsa::kAuto) {
    const auto best = std::find_if(levels.rbegin(), levels.rend(),
                                   [](const CpuLevel& level) { return can_run(level.isa); });
    return best == levels.rend() ? levels.front() : *best;
  }
  const auto found =
      std::find_if(levels.begin(), levels.end(), [&](const CpuLevel& level) { return level.isa == isa; });
  std::vector<CpuIsa> usable;
  for (const CpuLevel& level : levels)
    if (can_run(level.isa)) usable.push_back(level.isa);
  const std::string hint = fmt::format("here: auto, {}", names_of(usable));
  if (found == levels.end())
    throw Error(ExitCode::kConfiguration, fmt::format("this build has no kernels for {}", name_of(isa)),
                hint);
  if (!can_run(isa))
    throw Error(ExitCode::kConfiguration, fmt::format("this processor has not all of {}", name_of(isa)),
                hint);
  return *found;
}

}  // namespace recollect
