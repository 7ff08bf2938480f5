// The language-model head needs three numbers per token from every shard of a divided vocabulary. The engine
// does not know about ranks, so the code that divides the vocabulary supplies this reduction.
#pragma once

#include <cstdint>

namespace recollect {

class VocabularyReduction {
 public:
  virtual ~VocabularyReduction() = default;
  // Reduces elementwise over all shards, in place. `stream` is the device's, as in KernelArgs.
  virtual void max(double* values, int64_t count, void* stream = nullptr) = 0;
  virtual void sum(double* values, int64_t count, void* stream = nullptr) = 0;
  virtual void max(float* values, int64_t count, void* stream = nullptr) = 0;
  virtual void sum(float* values, int64_t count, void* stream = nullptr) = 0;
};

}  // namespace recollect
