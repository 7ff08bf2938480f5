// In the place of the backends, whose kernels no parser runs: one only asks what the cpu's are compiled for.
#include "engine/ops/cpu_level.h"
#include "engine/ops/ops.h"

namespace recollect {

namespace cpu {
const CpuLevel& level() {
  static constexpr CpuLevel kLevel;
  return kLevel;
}
}  // namespace cpu
namespace reference {
void register_kernels(KernelTable&, VocabularyReduction*) {}
}  // namespace reference
namespace cuda {
void register_kernels(KernelTable&, VocabularyReduction*, Libraries*) {}
}  // namespace cuda

}  // namespace recollect
