// Stands in for CUDA's header of this name.
#pragma once

#include "engine/core/dtype.h"
#include "tests/gpu/emulation/language.h"

struct __half2 {
  recollect::f16 x, y;
};
inline __half2 __floats2half2_rn(float x, float y) { return {recollect::f16(x), recollect::f16(y)}; }
inline float2 __half22float2(__half2 both) { return {both.x, both.y}; }
