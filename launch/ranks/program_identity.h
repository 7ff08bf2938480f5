// Identifies everything besides configuration and data that decides the bits of a result: the code of this
// program, the code of its mathematics library, and the instructions that they use on this processor.
//
// Ranks that differ in any of these refuse to train together. This includes libm, although our kernels have
// their own exponential functions. Some values must be equal on all ranks, or on all replicas of a parameter,
// and each rank computes them itself with libm: initial weights (log, cos, sin), the learning rate (cos),
// Adam's corrections (pow), the logarithms of attention and of the loss. libm does not promise the last bit:
// versions differ, and one version has other code for processors with fused multiply-add. Replicas that
// differ in a last bit would drift apart without an error.
#pragma once

#include <map>
#include <string>

#include "engine/ops/cpu_isa.h"

namespace recollect {

// One text for each part of the program, by name. Equal texts mean equal code. `isa` is device.isa.
std::map<std::string, std::string> program_identity(CpuIsa isa);

// The name and version of libm for reports: "libm of glibc 2.36".
std::string mathematics_library();

}  // namespace recollect
