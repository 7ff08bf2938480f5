// Which collectives a world on devices gets, on which device a rank is, and what NCCL is told through the
// environment.
#include <gtest/gtest.h>

#include <map>

#include "comm/device/make_device_world.h"
#include "comm/device/placement.h"
#include "comm/nccl/environment.h"
#include "tests/comm/check_collectives.h"
#include "tests/comm/device_nccl.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace test;
using device::plan_world;
using device::RankPlace;
using device::WorldKind;
using nccl::nccl_environment;
using nccl::Variable;

void expect_configuration_error(const std::function<void()>& function, const std::string& mention) {
  try {
    function();
    ADD_FAILURE() << "no error: " << mention;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    EXPECT_NE(std::string(error.what()).find(mention), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(RankDevice, RanksTakeTurns) {
  EXPECT_EQ(rank_device(0, 1), 0);
  EXPECT_EQ(rank_device(3, 8), 3);
  EXPECT_EQ(rank_device(3, 2), 1);  // more ranks than devices share them
  expect_configuration_error([] { rank_device(2, 0); }, "rank 2 of this node has no device");
  EXPECT_THROW(rank_device(-1, 2), Error);
}

std::vector<RankPlace> places(const std::vector<std::pair<int, std::string>>& process_and_device,
                              uint64_t node = 1) {
  std::vector<RankPlace> made;
  for (const auto& [process, hardware] : process_and_device) made.push_back({node, process, hardware});
  return made;
}

TEST(PlanWorld, ChoosesByProcessesAndDevices) {
  EXPECT_EQ(plan_world(places({{1, "A"}})).kind, WorldKind::kSelf);
  EXPECT_EQ(plan_world(places({{1, "A"}, {1, "A"}, {1, "A"}})).kind, WorldKind::kDeviceLocal);
  EXPECT_EQ(plan_world(places({{1, "A"}, {1, "B"}})).kind, WorldKind::kNccl);
  EXPECT_TRUE(plan_world(places({{1, "A"}, {1, "B"}})).threads);
  EXPECT_FALSE(plan_world(places({{1, "A"}, {2, "B"}})).threads);
  const auto own = plan_world(places({{1, "A"}, {2, "B"}}));
  EXPECT_EQ(own.kind, WorldKind::kNccl);
  EXPECT_EQ(own.ranks_per_device, 1);
  EXPECT_EQ(own.devices, 2);
  EXPECT_TRUE(own.one_node);
  const auto shared = plan_world(places({{1, "A"}, {2, "B"}, {3, "A"}}));
  EXPECT_EQ(shared.kind, WorldKind::kNccl);
  EXPECT_EQ(shared.ranks_per_device, 2);
  EXPECT_EQ(shared.devices, 2);
  auto two_nodes = places({{1, "A"}});
  two_nodes.push_back({2, 1, "B"});  // the same process number, elsewhere
  EXPECT_EQ(plan_world(two_nodes).kind, WorldKind::kNccl);
  EXPECT_FALSE(plan_world(two_nodes).one_node);
}

TEST(PlanWorld, RefusesMixtures) {
  expect_configuration_error(
      [] {
        plan_world(places({{1, "A"}, {1, "A"}, {1, "B"}, {1, "B"}}));
      },
      "4 rank threads of one process share 2 devices");
  expect_configuration_error(
      [] {
        plan_world(places({{1, "A"}, {1, "B"}, {2, "C"}}));
      },
      "3 ranks on devices are spread over 2 processes");
}

TEST(NcclEnvironment, KeepsLaunchesInOrderAndSumsExact) {
  const std::vector<Variable> always = {{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}, {"NCCL_NVLS_ENABLE", "0"}};
  for (const int version : {22809, 23007}) EXPECT_EQ(nccl_environment({version, 1, 5, false}), always);
}

TEST(NcclEnvironment, LetsRanksShareADevice) {
  EXPECT_EQ(to_string(nccl_environment({23003, 2, 1, true})),
            "NCCL_LAUNCH_ORDER_IMPLICIT=1 NCCL_NVLS_ENABLE=0 NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2");
  EXPECT_EQ(to_string(nccl_environment({23002, 2, 1, true})),
            "NCCL_LAUNCH_ORDER_IMPLICIT=1 NCCL_NVLS_ENABLE=0 NCCL_HOSTID=recollect-rank-1 NCCL_NET=Socket "
            "NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MNNVL_ENABLE=0 NCCL_ALGO=Ring NCCL_PROTO=Simple "
            "NCCL_MAX_CTAS=2");
  // Another rank has another name, also on another node, which loopback does not reach.
  const auto elsewhere = nccl_environment({22809, 4, 6, false});
  EXPECT_NE(std::find(elsewhere.begin(), elsewhere.end(), Variable{"NCCL_HOSTID", "recollect-rank-6"}),
            elsewhere.end());
  EXPECT_EQ(to_string(elsewhere).find("NCCL_SOCKET_IFNAME"), std::string::npos);
}

TEST(NcclEnvironment, LeavesWhatTheUserHasSet) {
  const auto lookup = [](const char* name) {
    return std::string(name) == "NCCL_NVLS_ENABLE" ? "1" : nullptr;
  };
  EXPECT_EQ(to_string(not_yet_set(nccl_environment({23007, 1, 0, true}), lookup)),
            "NCCL_LAUNCH_ORDER_IMPLICIT=1");
}

// One rank's parts; what it is told and what it sets.
struct Machine {
  explicit Machine(const std::string& hardware)
      : parts{.runtime = std::make_shared<WorkerRuntime>(hardware),
              .load_nccl = load_fake_nccl,
              .environment = [](const char*) { return nullptr; },
              .set_environment = [this](const std::string& name,
                                        const std::string& value) { set[name] = value; }} {}
  std::unique_ptr<Communicator> make(Communicator& world) {
    DeviceWorldOptions options;
    options.tell = [this](const std::string& line) { told += line; };
    return make_device_world(world, options, parts);
  }
  std::map<std::string, std::string> set;
  std::string told;
  device::DeviceWorldParts parts;
};

void check_collectives_of(Communicator& c) {
  WorkerStream stream(static_cast<uint32_t>(c.rank()));
  Synchronous synchronous(c, stream);
  for (const std::string& failure : CollectiveChecker(synchronous).run({61})) ADD_FAILURE() << failure;
}

TEST(DeviceWorld, ThreadsOnOneDeviceNeedNoNccl) {
  expect_fine(run_as_threads(3, [](Communicator& world) {
    Machine machine("A");
    machine.parts.load_nccl = []() -> nccl::Api { throw Error(ExitCode::kConfiguration, "there is none"); };
    const auto c = machine.make(world);
    EXPECT_EQ(c->name(), "device-local");
    EXPECT_EQ(machine.told,
              world.rank() == 0 ? "collectives on device memory: device-local, 3 ranks on 1 device" : "");
    EXPECT_TRUE(machine.set.empty());
    check_collectives_of(*c);
  }));
}

TEST(DeviceWorld, ThreadsOnDevicesOfTheirOwnUseNccl) {
  Behaviour behaviour;
  expect_fine(run_as_threads(2, [](Communicator& world) {
    Machine machine("GPU " + std::to_string(world.rank()));
    const auto c = machine.make(world);
    EXPECT_EQ(c->name(), "nccl 2.30.7");
    EXPECT_EQ(machine.told, world.rank() == 0
                                ? std::string("collectives on device memory: NCCL 2.30.7 (") +
                                      RECOLLECT_FAKE_NCCL +
                                      "), 2 ranks on 2 devices, with NCCL_LAUNCH_ORDER_IMPLICIT=1 "
                                      "NCCL_NVLS_ENABLE=0"
                                : "");
    EXPECT_EQ(machine.set.empty(), world.rank() != 0);  // one thread sets the variables of a process
    check_collectives_of(*c);
  }));
}

TEST(DeviceWorld, ProcessesThatShareADeviceSaySo) {
  Behaviour behaviour;
  behaviour->version = 22809;
  expect_fine(run_as_processes(2, [](Communicator& world) {
    Machine machine("A");
    const auto c = machine.make(world);
    EXPECT_EQ(machine.set["NCCL_HOSTID"], "recollect-rank-" + std::to_string(world.rank()));
    EXPECT_EQ(machine.told.find("2 ranks on 1 device, with") != std::string::npos, world.rank() == 0);
    check_collectives_of(*c);
  }));
}

TEST(DeviceWorld, OfOneRankIsItself) {
  expect_fine(run_as_threads(1, [](Communicator& world) {
    Machine machine("A");
    const auto c = machine.make(world);
    EXPECT_EQ(c->name(), "self");
    check_collectives_of(*c);
    check_collectives_of(*c->split(3));
  }));
}

TEST(DeviceWorld, TheRanksMustHaveTheSameNccl) {
  Behaviour behaviour;
  const auto run = [](int other) {
    return run_as_threads(2, [&](Communicator& world) {
      Machine machine("GPU " + std::to_string(world.rank()));
      machine.parts.load_nccl = [&] {
        if (world.rank() == 1 && other == 0) throw Error(ExitCode::kConfiguration, "libnccl.so.2 is nowhere");
        nccl::Api api = load_fake_nccl();
        if (world.rank() == 1) api.version = other;
        return api;
      };
      machine.make(world);
    });
  };
  const auto missing = run(0);
  for (const Outcome& outcome : missing) EXPECT_EQ(outcome.code, ExitCode::kConfiguration) << outcome.message;
  EXPECT_NE(missing[0].message.find("rank 1 has none"), std::string::npos) << missing[0].message;
  EXPECT_NE(missing[1].message.find("is nowhere"), std::string::npos) << missing[1].message;
  for (const Outcome& outcome : run(22809)) {
    EXPECT_EQ(outcome.code, ExitCode::kConfiguration);
    EXPECT_NE(outcome.message.find("2.28.9"), std::string::npos) << outcome.message;
  }
}

}  // namespace
}  // namespace recollect
