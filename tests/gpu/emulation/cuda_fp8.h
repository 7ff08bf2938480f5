// Stands in for CUDA's header of this name.
#pragma once

#include "engine/core/float8.h"
#include "tests/gpu/emulation/language.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

inline uint8_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t, __nv_fp8_interpretation_t format) {
  return format == __NV_E4M3 ? recollect::e4m3(x).bits : recollect::e5m2(x).bits;
}
