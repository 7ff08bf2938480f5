#include "engine/ops/cuda/cudnn.h"

#include "engine/core/error.h"

namespace recollect::cuda {

namespace {

// The part of cuDNN's C interface that is used here. A build without cuDNN's headers has no fused attention,
// but can still tell which cuDNN a machine has.
using Create = int(void** handle);
using Destroy = int(void* handle);
using GetErrorString = const char*(int status);

}  // namespace

Cudnn::Cudnn(const SearchPlaces& places) : library_(cudnn_name(), places) {
  use_cudnn(library_.handle());
  const int status = library_.function<Create>("cudnnCreate")(&handle_);
  if (status != 0)
    throw Error(ExitCode::kConfiguration,
                "cuDNN at " + path() + " cannot use this device: " +
                    library_.function<GetErrorString>("cudnnGetErrorString")(status));
}

Cudnn::~Cudnn() {
  graphs_.clear();
  library_.function<Destroy>("cudnnDestroy")(handle_);
}

std::shared_ptr<AttentionGraph> Cudnn::attention(const AttentionProblem& problem) {
  std::shared_ptr<AttentionGraph>& graph = graphs_[problem];
  if (!graph) graph = std::make_shared<AttentionGraph>(problem, *this);
  return graph;
}

}  // namespace recollect::cuda
