// The classes of ops by which reports divide the time of a step: contraction, normalisation and element-wise
// as in Ivanov et al., "Data Movement Is All You Need" (2021), and the other ops of a transformer's step.
#pragma once

#include "engine/core/spelled.h"
#include "engine/graph/op_def.h"

namespace recollect {

enum class OpClass { kContraction, kNormalisation, kElementwise, kAttention, kCollective, kCopy, kOptimizer };
template <>
inline constexpr std::array<std::string_view, 7> kSpellings<OpClass> = {
    "contraction", "normalisation", "element-wise", "attention", "collective", "copy", "optimizer"};

inline OpClass class_of(const Op& op) {
  switch (op.def->unit) {
    case Unit::kGemm:
      return OpClass::kContraction;
    case Unit::kAttention:
      return OpClass::kAttention;
    case Unit::kCollective:
      return OpClass::kCollective;
    case Unit::kCopy:
      return OpClass::kCopy;
    case Unit::kHost:
    case Unit::kVector:
      break;
  }
  if (op.phase == Phase::kOptimizer) return OpClass::kOptimizer;
  return op.def->normalises ? OpClass::kNormalisation : OpClass::kElementwise;
}

}  // namespace recollect
