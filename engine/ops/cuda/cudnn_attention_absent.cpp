// Stands in for cudnn_attention.cpp where cudnn-frontend's headers were not found: there is no fused
// attention, so that none of the rest is ever asked for.
#include "engine/core/error.h"
#include "engine/ops/cuda/cudnn_attention.h"

namespace recollect::cuda {

namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::kConfiguration, "this recollect was built without cuDNN's attention",
              "fetch cudnn-frontend and build again: launch/fetch_cudnn_frontend.sh");
}

}  // namespace

class AttentionGraph::Impl {};

bool has_fused_attention() { return false; }
void use_cudnn(void*) {}

AttentionGraph::AttentionGraph(const AttentionProblem&, const Cudnn&) { refuse(); }
AttentionGraph::~AttentionGraph() = default;
std::size_t AttentionGraph::workspace_bytes() const { refuse(); }
void AttentionGraph::run(const AttentionOperands&, void*, void*) { refuse(); }

PlannedAttention planned_attention(const AttentionProblem&, const Library&, const DescribedDevice&) {
  refuse();
}

}  // namespace recollect::cuda
