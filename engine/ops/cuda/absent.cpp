// Replaces this folder in a build without CUDA. Programs are planned as in a build with CUDA and
// cudnn-frontend, but cannot run.
#include "engine/ops/cuda/cudnn_attention.h"
#include "engine/ops/cuda/libraries.h"
#include "engine/ops/cuda/planned_kernels.h"
#include "engine/ops/cuda/versions.h"
#include "engine/ops/ops.h"

namespace recollect::cuda {

namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::kConfiguration, "this recollect was built without its CUDA backend",
              "build it where nvcc is: cmake --preset cuda && cmake --build --preset cuda");
}

}  // namespace

void register_kernels(KernelTable& table, VocabularyReduction* vocabulary, Libraries*) {
  add_planned_kernels(table, vocabulary);
}

bool has_fused_attention() { return true; }

std::string versions() { return ""; }

class Cublas {};
class Cudnn {};

Libraries::Libraries(LibrariesOptions) { refuse(); }  // NOLINT(performance-unnecessary-value-param)
Libraries::~Libraries() = default;
std::string Libraries::learned() const { refuse(); }
void Libraries::learn(const std::string&) { refuse(); }
std::vector<std::string> Libraries::take_warnings() { return {}; }

}  // namespace recollect::cuda
