// What decides about the bits of a result beside configuration and data: the code of this program and of the
// libraries that compute for it, and the instructions that they choose on this processor.
//
// Ranks that differ in any of it refuse to train together, and the C library's mathematics is no exception,
// although our kernels have exponential functions of their own. Every rank computes for itself what all
// ranks, or all replicas of a parameter, must have alike, and calls libm for it: initial weights (log, cos,
// sin), the learning rate (cos), Adam's corrections (pow), the logarithms of attention and of the loss. libm
// promises no last bit: versions differ, and one version has other code for processors with fused
// multiply-add. Replicas that start or step by another last bit drift apart, and nobody would hear of it.
#pragma once

#include <map>
#include <string>

#include "engine/ops/cpu_isa.h"

namespace recollect {

// By name; the same texts mean the same code. `isa`: device.isa.
std::map<std::string, std::string> program_identity(CpuIsa isa);

// The one whose version the reports state: "libm of glibc 2.36".
std::string mathematics_library();

}  // namespace recollect
