// The features of the processor that the cpu backend has code for, and which of them the system lets programs
// use.
#pragma once

namespace recollect {

struct CpuFeatures {
  bool avx2 = false;    // with FMA, BMI and the rest of x86-64-v3
  bool avx512 = false;  // F, BW, CD, DQ and VL, as in x86-64-v4
  bool avx512_bf16 = false;
  bool amx_reported = false, amx_granted = false;  // tiles of bf16; the system grants them on request
  unsigned family = 0, model = 0;                  // as numbered by CPUID
};

// Returns the features of this processor; all are false if it is not x86-64.
const CpuFeatures& cpu_features();

}  // namespace recollect
