#include "launch/ranks/backend.h"

#include <cstdio>
#include <string>
#include <vector>

#include "comm/agree.h"
#include "comm/bootstrap.h"
#include "comm/device_world.h"
#include "engine/ops/cuda/libraries.h"
#include "engine/runtime/cuda/device.h"

namespace recollect {

namespace {

int local_rank(Communicator& world) {
  const std::optional<RankEnvironment> who = discover_ranks();
  return who && who->size > 1 ? who->local_rank
                              : world.rank();  // otherwise ranks are threads of this process
}

cuda::Graphs graphs_for(const Config& config, const Communicator* values) {
  if (config.device.cuda_graph == CudaGraph::kOff) return cuda::Graphs::kNone;
  if (!values) return cuda::Graphs::kPreferred;
  return values->capturable() ? cuda::Graphs::kRequired : cuda::Graphs::kNone;
}

void say(const std::string& line) { std::fprintf(stderr, "recollect: %s\n", line.c_str()); }

}  // namespace

Backend::Backend(const Config& config, Communicator& world)
    : kernels_(kernels_of(config.device.backend, config.device.isa)) {
  if (config.device.backend != BackendKind::kCuda) {
    device_ = make_cpu_device();
    return;
  }
  const int ordinal = rank_device(local_rank(world), cuda::device_count());
  if (world.size() > 1)
    world_ = make_device_world(world, {.device = ordinal,
                                       .timeout = std::chrono::seconds(config.parallelism.timeout_seconds),
                                       .tell = say});
  device_ = cuda::make_device({.ordinal = ordinal,
                               .pinned_required = config.device.pinned == PinnedMemory::kRequired,
                               .graphs = graphs_for(config, world_.get()),
                               .shareable = world_ != nullptr});
  libraries_.reset(new cuda::Libraries({.tf32 = config.device.tf32}));
  kernels_ = kernels_of(config.device.backend, config.device.isa, libraries_.get());
}

Backend::~Backend() = default;

void Backend::FreeLibraries::operator()(cuda::Libraries* libraries) const { delete libraries; }

void Backend::choose_alike(Communicator& world, const std::function<void()>& prepare) const {
  if (!libraries_) return prepare();
  if (world.rank() == 0) prepare();
  if (world.size() > 1) {
    const std::string choices = broadcast_text(world.rank() == 0 ? libraries_->learned() : "", 0, world);
    if (world.rank() > 0) {
      libraries_->learn(choices);
      prepare();
    }
  }
  for (const std::string& warning : libraries_->take_warnings()) say(warning);
}

}  // namespace recollect
