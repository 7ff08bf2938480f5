// The vocabulary is sharded over the ranks of a communicator: reducing over its shards is an all-reduce.
#pragma once

#include "comm/communicator.h"
#include "engine/ops/vocabulary_reduction.h"

namespace recollect {

class CommunicatorVocabularyReduction final : public VocabularyReduction {
 public:
  // `communicator` must outlive this object and be the one of the stream that runs the language-model head.
  explicit CommunicatorVocabularyReduction(Communicator& communicator) : communicator_(communicator) {}

  void max(double* values, int64_t count, void* stream = nullptr) override {
    reduce(values, count, ReduceOp::kMax, stream);
  }
  void sum(double* values, int64_t count, void* stream = nullptr) override {
    reduce(values, count, ReduceOp::kSum, stream);
  }
  void max(float* values, int64_t count, void* stream = nullptr) override {
    reduce(values, count, ReduceOp::kMax, stream);
  }
  void sum(float* values, int64_t count, void* stream = nullptr) override {
    reduce(values, count, ReduceOp::kSum, stream);
  }

 private:
  template <typename T>
  void reduce(T* values, int64_t count, ReduceOp op, void* stream) {
    communicator_.all_reduce({values, {count}, kDTypeOf<T>}, op, stream);
  }

  Communicator& communicator_;
};

}  // namespace recollect
