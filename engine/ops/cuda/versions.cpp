#include "engine/ops/cuda/versions.h"

#include <cuda_runtime_api.h>

#include <fmt/format.h>

#include "engine/nvidia/library.h"

namespace recollect::cuda {

std::string versions() {
  const std::string cuda = fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  const std::string cudnn =
      fmt::format(", cuDNN {} by cudnn-frontend {}", RECOLLECT_CUDNN, RECOLLECT_CUDNN_FRONTEND);
  const std::string attention = *RECOLLECT_CUDNN ? cudnn : ", no cuDNN";
  return fmt::format("{}{}, NCCL {}.{} or newer", cuda, attention, kOldestNccl / 10000,
                     kOldestNccl / 100 % 100);
}

}  // namespace recollect::cuda
