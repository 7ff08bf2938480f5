// Instruction sets that the cpu backend's kernels are compiled for. Each includes all sets before it.
#pragma once

#include "engine/core/spelled.h"

namespace recollect {

// kAuto is the highest set that the processor has. The set determines bits, workspaces and speed.
enum class CpuIsa {
  kAuto,
  kBaseline,    // available on every processor of the architecture
  kAvx2,        // x86-64-v3: with FMA and BMI
  kAvx512,      // x86-64-v4: F, BW, CD, DQ and VL
  kAvx512Bf16,  // dot products of bf16
  kAmx,         // tiles of bf16
};
template <>
inline constexpr std::array<std::string_view, 6> kSpellings<CpuIsa> = {"auto",   "baseline",    "avx2",
                                                                       "avx512", "avx512_bf16", "amx"};

}  // namespace recollect
