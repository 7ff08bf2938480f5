// Stands in for the backend's header of this name: a cuDNN that is in no library, and computes attention by loops
// (tests/gpu/fake_cuda/attention.cpp).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/ops/cuda/cudnn_attention.h"

namespace recollect::cuda {

class Cudnn {
 public:
  std::string path() const { return "the fake cuDNN"; }
  std::shared_ptr<AttentionGraph> attention(const AttentionProblem& problem);

 private:
  std::map<AttentionProblem, std::shared_ptr<AttentionGraph>> graphs_;
};

}  // namespace recollect::cuda
