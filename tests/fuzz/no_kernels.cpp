// In the place of the cpu backend, which parsers only ask what it is compiled for.
#include "engine/ops/cpu_level.h"

namespace recollect::cpu {

const CpuLevel& level() {
  static constexpr CpuLevel kLevel;
  return kLevel;
}

}  // namespace recollect::cpu
