#include "comm/device/make_device_world.h"

#include "comm/device/device_self.h"
#include "comm/device/places.h"
#include "comm/device_local/device_local_communicator.h"
#include "comm/nccl/environment.h"
#include "comm/nccl/nccl_communicator.h"

namespace recollect::device {
namespace {

// Loads NCCL and lets all ranks agree on the library before they connect, so that a rank without it does not
// leave the others waiting.
nccl::Api load_together(Communicator& world, const DeviceWorldParts& parts) {
  nccl::Api api;
  std::exception_ptr failure;
  try {
    api = parts.load_nccl();
  } catch (const Error&) {
    failure = std::current_exception();
  }
  std::vector<int64_t> versions(static_cast<std::size_t>(world.size()));
  const int64_t mine = api.version;
  gather_records(world, &mine, versions.data(), sizeof mine);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t r = 0; r < versions.size(); ++r) {
    if (versions[r] == mine) continue;
    const std::string theirs = versions[r] == 0 ? "none" : nccl::version_text(static_cast<int>(versions[r]));
    throw Error(ExitCode::kConfiguration,
                "rank " + std::to_string(world.rank()) + " has NCCL " + nccl::version_text(api.version) +
                    " (" + api.path + "), rank " + std::to_string(r) + " has " + theirs,
                "install the same NCCL for every rank");
  }
  return api;
}

// One thread of each process sets its environment while the others wait.
std::string prepare_environment(Communicator& world, const std::vector<RankPlace>& places,
                                const WorldPlan& plan, const nccl::Api& api, const DeviceWorldParts& parts) {
  const auto self = static_cast<std::size_t>(world.rank());
  bool first = true;
  for (std::size_t r = 0; r < self; ++r)
    if (places[r].node == places[self].node && places[r].process == places[self].process) first = false;
  std::string set;
  if (first) {
    const auto variables = nccl::not_yet_set(
        nccl::nccl_environment({api.version, plan.ranks_per_device, world.rank(), plan.one_node}),
        parts.environment);
    for (const nccl::Variable& variable : variables) parts.set_environment(variable.name, variable.value);
    set = nccl::to_string(variables);
  }
  world.barrier();
  return set;
}

std::string counted(int count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

std::unique_ptr<Communicator> make_device_world(Communicator& world, const DeviceWorldOptions& options,
                                                const DeviceWorldParts& parts) {
  const std::vector<RankPlace> places = gather_places(world, parts.runtime->hardware_id());
  const WorldPlan plan = plan_world(places);
  const auto tell = [&](const std::string& line) {
    if (world.rank() == 0 && options.tell) options.tell(line);
  };
  const std::string who = counted(world.size(), "rank") + " on " + counted(plan.devices, "device");
  if (plan.kind == WorldKind::kSelf) return make_device_self(parts.runtime);
  if (plan.kind == WorldKind::kDeviceLocal) {
    tell("collectives on device memory: device-local, " + who);
    return device_local::join_device_local_world(parts.runtime, world);
  }
  nccl::Api api = load_together(world, parts);
  const std::string set = prepare_environment(world, places, plan, api, parts);
  tell("collectives on device memory: NCCL " + nccl::version_text(api.version) + " (" + api.path + "), " +
       who + (set.empty() ? "" : ", with " + set));
  return nccl::join_nccl_world(std::move(api), parts.runtime, world,
                               {.timeout = options.timeout, .abort = {}, .end_process = parts.end_process},
                               plan.threads);
}

}  // namespace recollect::device
