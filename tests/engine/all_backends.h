// The kernels of all backends, to be compared: the cuda one's as C++ compiles them.
#pragma once

#include "engine/ops/ops.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {

struct AllBackends {
  KernelTable reference, cpu, cuda;

  AllBackends() {
    reference::register_kernels(reference);
    register_cpu_kernels(cpu);
    emulation::register_kernels(cuda);
  }
};

}  // namespace recollect::test
