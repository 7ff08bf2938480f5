// cuDNN on one device, for one rank: its handle, and the attention graphs made with it. It uses no types of
// NVIDIA; only cudnn_attention.cpp includes cudnn-frontend's headers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "engine/nvidia/library.h"
#include "engine/ops/cuda/cudnn_attention.h"

namespace recollect::cuda {

class Cudnn {
 public:
  // Makes a handle for the calling thread's device. Throws Error kConfiguration if no cuDNN is new enough.
  explicit Cudnn(const SearchPlaces& places);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;

  const std::string& path() const { return library_.path(); }
  std::size_t version() const { return library_.version(); }
  void* handle() const { return handle_; }  // a cudnnHandle_t

  // Returns the graph that computes a problem; equal problems share one.
  std::shared_ptr<AttentionGraph> attention(const AttentionProblem& problem);

 private:
  Library library_;
  void* handle_ = nullptr;
  std::map<AttentionProblem, std::shared_ptr<AttentionGraph>> graphs_;
};

}  // namespace recollect::cuda
