// Stands in for this folder in a build without CUDA.
#include "engine/ops/ops.h"

namespace recollect::cuda {

void register_kernels(KernelTable&, VocabularyReduction*, Libraries*) {
  throw Error(ExitCode::kConfiguration, "this recollect was built without its CUDA backend",
              "build it where nvcc is: cmake --preset cuda && cmake --build --preset cuda");
}

}  // namespace recollect::cuda
