#include "engine/ops/cuda/gemm_workspace.h"

namespace recollect::cuda {

std::size_t library_workspace_bytes() { return std::size_t{32} << 20; }  // what NVIDIA recommends for Hopper

}  // namespace recollect::cuda
