#include "engine/ops/cuda/cudnn.h"

#include "engine/core/error.h"

namespace recollect::cuda {

namespace {

// As much of cuDNN's C interface as is used here. A build without its headers has no fused attention, but
// still says which cuDNN a machine has.
using GetVersion = std::size_t();
using Create = int(void** handle);
using Destroy = int(void* handle);
using GetErrorString = const char*(int status);

// The first whose backward needs no padding mask of the host's making when a sequence is not whole tiles:
// such a mask is copied from memory that a recorded step may outlive.
constexpr std::size_t kOldestVersion = 91600;

std::string short_version(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

}  // namespace

LibraryName cudnn_name() {
  return {"cuDNN", "libcudnn.so.9", "install cuDNN 9 or its wheel: pip install nvidia-cudnn-cu13"};
}

std::size_t cudnn_version(const Library& library) {
  return library.function<GetVersion>("cudnnGetVersion")();
}

Cudnn::Cudnn(const SearchPlaces& places) : library_(cudnn_name(), places), version_(cudnn_version(library_)) {
  if (version_ < kOldestVersion)
    throw Error(ExitCode::kConfiguration,
                "cuDNN " + short_version(version_) + " at " + path() + " is too old",
                "take " + short_version(kOldestVersion) +
                    " or newer: pip install nvidia-cudnn-cu13, or RECOLLECT_NVIDIA_LIBRARIES=FOLDER");
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
