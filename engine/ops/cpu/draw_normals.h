// Normals in float, many at once: scale * z of elements first ... first + count - 1, where z are those of
// engine/core/normals.h, with the bits that rounding scale * z from double gives, at every level.
#pragma once

#include <cstdint>

#include "engine/core/normals.h"

namespace recollect::cpu {

void draw_normals(const DrawKey& key, uint64_t first, int64_t count, double scale, float* out);

}  // namespace recollect::cpu
