// The ranks as an array of any number of axes: who is where, who talks to whom, and what is refused.
#include "parallel/mesh.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/comm/ranks.h"
#include "tests/engine/expect_error.h"

namespace recollect {
namespace {

using namespace test;

std::vector<MeshAxis> three_axes() {
  return {{.name = "pipeline", .size = 2},
          {.name = std::string(kDataAxis), .size = 3},
          {.name = std::string(kTensorAxis), .size = 2, .streams = {StreamId::kCompute, StreamId::kGather}}};
}

std::size_t no_staging(int) { return 0; }

TEST(Mesh, TheLastAxisVariesFastest) {
  std::set<std::vector<int>> places;
  for (int rank = 0; rank < 12; ++rank) {
    const Mesh mesh = Mesh::planned(rank, three_axes(), no_staging);
    EXPECT_EQ(mesh.size("pipeline"), 2);
    EXPECT_EQ(mesh.data_size(), 3);
    EXPECT_EQ(mesh.tensor_size(), 2);
    EXPECT_EQ(rank, (mesh.rank("pipeline") * 3 + mesh.data_rank()) * 2 + mesh.tensor_rank());
    places.insert({mesh.rank("pipeline"), mesh.rank("data"), mesh.rank("tensor")});
    for (const std::string axis : {"pipeline", "data", "tensor"}) {
      const Communicator& c = mesh.communicator(axis, StreamId::kCompute);
      EXPECT_EQ(c.size(), mesh.size(axis));
      EXPECT_EQ(c.rank(), mesh.rank(axis));
    }
  }
  EXPECT_EQ(places.size(), 12u);
}

// Every group is told apart by what its ranks have in common.
TEST(Mesh, RanksTalkAlongEachAxis) {
  expect_fine(run_as_threads(12, [](Communicator& world) {
    const Mesh mesh(world, three_axes());
    const std::vector<int> place{mesh.rank("pipeline"), mesh.rank("data"), mesh.rank("tensor")};
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      const MeshAxis& mine = mesh.axes()[axis];
      for (const StreamId stream : mine.streams) {
        std::vector<int64_t> all(static_cast<std::size_t>(3 * mine.size));
        std::vector<int64_t> self(place.begin(), place.end());
        mesh.communicator(mine.name, stream)
            .all_gather({self.data(), {3}, DType::kI64}, {all.data(), {3 * mine.size}, DType::kI64});
        for (int r = 0; r < mine.size; ++r)
          for (std::size_t other = 0; other < 3; ++other)
            EXPECT_EQ(all[static_cast<std::size_t>(3 * r) + other], other == axis ? r : place[other]);
      }
    }
  }));
}

TEST(Mesh, ListsItsCommunicatorsTheFastestAxisFirst) {
  const Mesh mesh = Mesh::planned(0, training_axes(2, 2), no_staging, true);
  std::string text;
  for (const Mesh::Link& link : mesh.links())
    text += std::string(link.axis) + "/" + std::string(link.stream) + " ";
  EXPECT_EQ(text,
            "tensor/compute tensor/communication tensor/gather tensor/host data/compute data/communication "
            "data/host ");
  EXPECT_NE(&mesh.host_communicator("data"), &mesh.communicator("data", StreamId::kCompute));
  const Mesh on_host = Mesh::planned(0, training_axes(2, 2), no_staging);
  EXPECT_EQ(on_host.links().size(), 5u);
  EXPECT_EQ(&on_host.host_communicator("data"), &on_host.communicator("data", StreamId::kCompute));
}

TEST(Mesh, CountsEveryBuffer) {
  const Mesh mesh =
      Mesh::planned(3, training_axes(2, 4), [](int size) { return static_cast<std::size_t>(size); });
  EXPECT_EQ(mesh.staging_bytes(), 8u + 3 * 4 + 2 * 2);
}

TEST(Mesh, RefusesWhatCannotBe) {
  const auto self = make_self_communicator();
  expect_error(ExitCode::kConfiguration,
               {"the world has 1 ranks, but data_parallel_size x tensor_parallel_size = 2 x 4"},
               [&] { Mesh(*self, training_axes(2, 4)); });
  const std::vector<MeshAxis> twice = {{.name = "data"}, {.name = "data"}},
                              none = {{.name = "data", .size = 0}};
  expect_error(ExitCode::kInternal, {"two axes 'data'"}, [&] { Mesh(*self, twice); });
  expect_error(ExitCode::kInternal, {"0 ranks"}, [&] { Mesh(*self, none); });
  const Mesh mesh(*self, training_axes(1, 1));
  expect_error(ExitCode::kInternal, {"no axis 'pipeline'"}, [&] { mesh.size("pipeline"); });
  expect_error(ExitCode::kInternal, {"the gather stream does not talk along the data axis"},
               [&] { mesh.communicator("data", StreamId::kGather); });
}

}  // namespace
}  // namespace recollect
