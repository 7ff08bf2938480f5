// Attributes of norms that all backends read.
#pragma once

#include "engine/graph/op_def.h"

namespace recollect {

// Added to the weights of an RMS norm, of rows or of heads; 0 if it is not given.
inline double weight_offset(const Attributes& attributes) {
  return attributes.has("weight_offset") ? attributes.real("weight_offset") : 0;
}

}  // namespace recollect
