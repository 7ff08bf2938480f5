// Stands in for CUDA's header of this name.
#pragma once

#include "engine/core/dtype.h"
#include "tests/gpu/emulation/language.h"

struct __nv_bfloat162 {
  recollect::bf16 x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {recollect::bf16(x), recollect::bf16(y)};
}
