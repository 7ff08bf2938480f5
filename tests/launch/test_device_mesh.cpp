// A mesh whose values lie on devices: what its communicators hold on the host is what is planned without
// them.
#include <gtest/gtest.h>

#include <thread>

#include "comm/device_local/device_local_communicator.h"
#include "comm/local.h"
#include "parallel/mesh.h"
#include "tests/comm/device_streams.h"

namespace recollect::test::device_mesh_test {
namespace {

TEST(DeviceMesh, HoldsWhatIsPlanned) {
  static constexpr int kRanks = 4;
  for (const int tensor : {1, 2, 4}) {
    LocalGroup group(kRanks, std::chrono::seconds(60));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        const std::unique_ptr<Communicator> world = group.join(rank);
        device_local::DeviceLocalCommunicator values(std::make_shared<WorkerRuntime>("GPU"), {0, 1, 2, 3},
                                                     *world, nullptr);
        const Mesh mesh(*world, training_axes(kRanks / tensor, tensor), &values);
        const Mesh planned = Mesh::planned(
            rank, mesh.axes(), [](int size) { return local_staging_bytes(kRanks, size); }, true);
        EXPECT_EQ(mesh.staging_bytes(), planned.staging_bytes()) << tensor;
        EXPECT_GT(mesh.staging_bytes(), 0u);
        EXPECT_EQ(mesh.device_bytes(), 0u);
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace recollect::test::device_mesh_test
