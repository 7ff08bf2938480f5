// The cuda backend's kernels for tests that keep their values in host memory: each run takes its operands to
// the device and back.
#pragma once

#include "engine/ops/cuda/libraries.h"
#include "engine/runtime/kernel.h"

namespace recollect::test {

// `libraries` must outlive the kernels. A write beyond the ends of a value or of the workspace is an Error,
// and so is a run before its kernel is prepared. The host's state says nothing but whether this is an
// evaluation.
void register_device_kernels(KernelTable& table, cuda::Libraries& libraries);

}  // namespace recollect::test
