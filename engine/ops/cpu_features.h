// What the processor can do of what the cpu backend is compiled for, and what the system lets programs use of it.
#pragma once

namespace recollect {

struct CpuFeatures {
  bool avx2 = false;    // with FMA, BMI and what else is in x86-64-v3
  bool avx512 = false;  // F, BW, CD, DQ and VL, as in x86-64-v4
  bool avx512_bf16 = false;
  bool amx_reported = false, amx_granted = false;  // tiles of bf16; the system gives them to who asks
  unsigned family = 0, model = 0;                  // as CPUID numbers processors
};

// Of this processor; all false where it is no x86-64.
const CpuFeatures& cpu_features();

}  // namespace recollect
