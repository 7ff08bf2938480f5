// The cpu backend that tests of ops examine: that of RECOLLECT_TEST_ISA, or the best of this processor. Error
// kConfiguration for one that cannot run here.
#pragma once

#include <cstdlib>
#include <string_view>

#include "engine/ops/cpu_level.h"

namespace recollect::test {

inline const CpuLevel& tested_level() {
  const char* name = std::getenv("RECOLLECT_TEST_ISA");
  for (std::size_t i = 0; name && i < kSpellings<CpuIsa>.size(); ++i)
    if (kSpellings<CpuIsa>[i] == name) return cpu_level(static_cast<CpuIsa>(i));
  return cpu_level();
}

inline void register_cpu_kernels(KernelTable& table, VocabularyReduction* vocabulary = nullptr) {
  tested_level().register_kernels(table, vocabulary);
}

}  // namespace recollect::test
