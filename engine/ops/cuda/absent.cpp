// Stands in for this folder in a build without CUDA.
#include "engine/ops/cuda/libraries.h"
#include "engine/ops/cuda/versions.h"
#include "engine/ops/ops.h"

namespace recollect::cuda {

namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::kConfiguration, "this recollect was built without its CUDA backend",
              "build it where nvcc is: cmake --preset cuda && cmake --build --preset cuda");
}

}  // namespace

void register_kernels(KernelTable&, VocabularyReduction*, Libraries*) { refuse(); }

std::string versions() { return ""; }

class Cublas {};
class Cudnn {};

Libraries::Libraries(LibrariesOptions) { refuse(); }  // NOLINT(performance-unnecessary-value-param)
Libraries::~Libraries() = default;
std::string Libraries::learned() const { refuse(); }
void Libraries::learn(const std::string&) { refuse(); }
std::vector<std::string> Libraries::take_warnings() { return {}; }

}  // namespace recollect::cuda
