// Stands in for CUDA's header of this name.
#pragma once

#include "engine/core/float8.h"
#include "tests/gpu/emulation/cuda_fp16.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

inline uint8_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t, __nv_fp8_interpretation_t format) {
  return format == __NV_E4M3 ? recollect::e4m3(x).bits : recollect::e5m2(x).bits;
}

struct __half2_raw {
  uint16_t x, y;
};
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(uint16_t two, __nv_fp8_interpretation_t format) {
  const auto half = [format](int code) {
    const auto bits = static_cast<uint8_t>(code);
    return recollect::f16(format == __NV_E4M3 ? recollect::float8::widen<recollect::float8::E4M3>(bits)
                                              : recollect::float8::widen<recollect::float8::E5M2>(bits))
        .bits;
  };
  return {half(two & 0xff), half(two >> 8)};
}
