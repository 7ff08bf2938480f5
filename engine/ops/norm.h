// What all backends read of a norm's attributes.
#pragma once

#include "engine/graph/op_def.h"

namespace recollect {

// What the weights of an RMS norm are added to: nothing where it is not given.
inline double weight_offset(const Attributes& attributes) {
  return attributes.has("weight_offset") ? attributes.real("weight_offset") : 0;
}

}  // namespace recollect
