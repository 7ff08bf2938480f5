// The communicator for NCCL, end to end over a library that stands in for NCCL on host memory.
#include <gtest/gtest.h>

#include <array>

#include "comm/device/places.h"
#include "engine/nvidia/multiprocessors.h"
#include "tests/comm/device_checks.h"
#include "tests/comm/device_nccl.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;
using nccl::join_nccl_world;

std::unique_ptr<Communicator> join(Communicator& world, std::shared_ptr<WorkerRuntime> gpu = nullptr) {
  return join_nccl_world(load_fake_nccl(), gpu ? gpu : gpu_of(world), world, patience(60s));
}

using Runner = std::vector<Outcome> (*)(int, const RankFunction&, std::chrono::milliseconds, std::size_t);

struct Ranks {
  Runner run;
  int count;
};

class Nccl : public ::testing::TestWithParam<Ranks> {
 protected:
  void run(const RankFunction& function) {
    expect_fine(GetParam().run(GetParam().count, function, 60s, kDefaultChunkBytes));
  }
  Behaviour behaviour_;
};
INSTANTIATE_TEST_SUITE_P(Fake, Nccl,
                         ::testing::Values(Ranks{run_as_threads, 2}, Ranks{run_as_threads, 4},
                                           Ranks{run_as_processes, 3}),
                         [](const auto& info) {
                           return std::to_string(info.param.count) +
                                  (info.index < 2 ? "Threads" : "Processes");
                         });

TEST_P(Nccl, GetsEveryCollectiveRight) {
  run([](Communicator& world) {
    const auto c = join(world);
    EXPECT_EQ(c->name(), "nccl 2.30.7");
    EXPECT_TRUE(c->capturable());
    check_on_stream(*c, {0, 1, 7, 1021, 10007});
  });
}

TEST_P(Nccl, PassesEveryTensorRight) {
  run([](Communicator& world) {
    const auto c = join(world);
    check_passing_on_stream(*c, {0, 61, 100'003});
    const auto pair = c->split(c->rank() / 2);
    check_passing_on_stream(*pair, {61});
    check_on_stream(*c, {61});
  });
}

TEST_P(Nccl, TellsBothSidesOfOtherSizes) {
  expect_each(
      GetParam().run(
          GetParam().count,
          [](Communicator& world) {
            const auto c = join(world);
            WorkerStream stream(1);
            float values[4] = {};
            if (c->rank() == 0) c->send({values, {3}, DType::kF32}, 1, &stream);
            if (c->rank() == 1) c->receive({values, {4}, DType::kF32}, 0, &stream);
          },
          60s, kDefaultChunkBytes),
      {0, 1}, ExitCode::kRanksDisagree,
      {"rank 0: send #1 to rank 1 (f32, 12 bytes)", "rank 1: receive #1 from rank 0 (f32, 16 bytes)"});
}

// As a mesh does: several groups of the same ranks, and groups across them.
TEST_P(Nccl, Splits) {
  run([](Communicator& world) {
    const auto c = join(world);
    const auto rows = c->split(c->rank() / 2), again = c->split(c->rank() / 2),
               columns = c->split(c->rank() % 2);
    EXPECT_EQ(rows->rank(), c->rank() % 2);
    EXPECT_EQ(columns->rank(), c->rank() / 2);
    EXPECT_EQ(rows->name(), rows->size() == 1 ? "self" : "nccl 2.30.7");
    for (Communicator* group : {rows.get(), again.get(), columns.get(), c.get()})
      check_on_stream(*group, {61});
    const auto reversed = c->split(-5);  // any number may be a colour
    EXPECT_EQ(reversed->size(), c->size());
    check_on_stream(*reversed, {7});
  });
}

TEST_P(Nccl, WaitsForWhatIsInProgress) {
  behaviour_->polls = 210;  // more than are asked after in haste
  run([](Communicator& world) {
    const auto c = join(world);
    check_on_stream(*c, {61});
  });
}

TEST(NcclGroups, AreMadeWithoutBlockingAndGivenBack) {
  Behaviour behaviour;
  expect_fine(run_as_threads(2, [](Communicator& world) {
    const auto c = join(world);
    const auto pair = c->split(0), alone = c->split(c->rank());
    check_on_stream(*pair, {3});
  }));
  EXPECT_EQ(behaviour->last_blocking, 0);
  EXPECT_EQ(behaviour->finalizes, 4);
  EXPECT_EQ(behaviour->destroys, 4);
  EXPECT_EQ(behaviour->aborts, 0);
}

TEST(NcclGroups, BesideProductsTakeFewMultiprocessors) {
  Behaviour behaviour;
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const auto c = join(world);
    const auto plain = c->split(0);
    EXPECT_EQ(behaviour->last_max_ctas, nccl::kUndefined);
    world.barrier();
    const auto beside = c->split_beside_products(0);
    EXPECT_EQ(behaviour->last_max_ctas, cuda::kMultiprocessorsOfCollectives);
    check_on_stream(*beside, {61});
  }));
}

TEST(NcclGroups, TellWhatTheyTakeOfTheDevice) {
  Behaviour behaviour;
  const auto staging = [](std::array<std::size_t, 2>& bytes) {
    expect_fine(run_as_threads(2, [&](Communicator& world) {
      bytes[static_cast<std::size_t>(world.rank())] = join(world)->device_bytes();
    }));
  };
  std::array<std::size_t, 2> bytes{};
  staging(bytes);  // what became less while it was made, as WorkerRuntime says
  EXPECT_EQ(bytes, (std::array<std::size_t, 2>{1000, 1000}));
  behaviour->memory = 12345;
  staging(bytes);
  EXPECT_EQ(bytes, (std::array<std::size_t, 2>{12345, 12345}));
}

// A mesh of one row: gathers of values in the arena go through the window, all else as before.
TEST(NcclWindow, TakesTheGathersOfSharedMemory) {
  Behaviour behaviour;
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const auto gpu = gpu_of(world);
    gpu->shareable = true;
    const auto c = join(world, gpu);
    constexpr std::size_t kArena = 1 << 16;
    const std::unique_ptr<std::byte, void (*)(void*)> arena(
        static_cast<std::byte*>(std::aligned_alloc(4096, kArena)), std::free);
    ASSERT_TRUE(c->share_memory(arena.get(), kArena, Shared::kGathers));
    EXPECT_EQ(c->name(), "nccl 2.30.7, through a window");
    auto* in = reinterpret_cast<int64_t*>(arena.get());
    int64_t* out = in + 100;
    std::fill_n(in, 100, c->rank());
    WorkerStream stream(1);
    c->all_gather({in, {100}, DType::kI64}, {out, {200}, DType::kI64}, &stream);
    stream.synchronize();
    for (int i = 0; i < 200; ++i) EXPECT_EQ(out[i], i / 100);
    EXPECT_EQ(behaviour->windows, 2);
    world.barrier();
    const int before = behaviour->gathers_by_copy;
    world.barrier();
    check_on_stream(*c, {61});
    EXPECT_EQ(behaviour->gathers_by_copy, before);
    world.barrier();
    c->unshare_memory();
    EXPECT_EQ(c->name(), "nccl 2.30.7");
    check_on_stream(*c, {61});
  }));
  EXPECT_EQ(behaviour->gathers_by_copy, 4);  // the first gather of each rank is done twice
  EXPECT_EQ(behaviour->kernels_beside, 2);
  EXPECT_EQ(behaviour->windows, 0);
  EXPECT_EQ(behaviour->destroys, 4);
}

// NCCL orders handles by their kernels, which gathers by copy engines are not: the first gather of each capture, and the
// first one that is captured no longer, has a kernel before it. A single gather before the first capture would leave a
// number behind that the captured one takes for another rank's. The fake one has both rules, and fails.
TEST(NcclWindow, HasAKernelInEachCaptureAndNoSingleGatherBeforeThem) {
  Behaviour behaviour;
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const auto gpu = gpu_of(world);
    gpu->shareable = true;
    const auto c = join(world, gpu);
    constexpr std::size_t kArena = 1 << 16;
    const std::unique_ptr<std::byte, void (*)(void*)> arena(
        static_cast<std::byte*>(std::aligned_alloc(4096, kArena)), std::free);
    ASSERT_TRUE(c->share_memory(arena.get(), kArena, Shared::kGathers));
    auto* in = reinterpret_cast<int64_t*>(arena.get());
    int64_t* out = in + 100;
    WorkerStream stream(1);
    int gathers = 1, kernels = 0;  // of one rank
    const std::pair<uint64_t, int> captures[] = {{0, 1}, {7, 3}, {8, 2}, {0, 2}, {9, 1}};
    for (const auto& [capture, count] : captures) {
      world.barrier();
      gpu->capture = behaviour->capture = capture;
      world.barrier();
      for (int i = 0; i < count; ++i) {
        std::fill_n(in, 100, 10 * c->rank() + i);
        c->all_gather({in, {100}, DType::kI64}, {out, {200}, DType::kI64}, &stream);
        stream.synchronize();
        for (int at = 0; at < 200; ++at) ASSERT_EQ(out[at], at / 100 * 10 + i) << capture;
      }
      gathers += count, ++kernels;
      world.barrier();
      EXPECT_EQ(behaviour->gathers_by_copy, 2 * gathers) << capture;
      EXPECT_EQ(behaviour->kernels_beside, 2 * kernels) << capture;
    }
    gpu->capture = 0;
  }));
}

// With no more thread blocks than the group has. What a rank reads of others, or writes there, is at the same place in its
// own memory, but its part of a sum and its part of what is gathered may be anywhere in it.
TEST(NcclWindow, TakesTheCollectivesOfSharedMemory) {
  Behaviour behaviour;
  const auto expect_each = [&](int calls) {
    EXPECT_EQ(behaviour->symmetric_sums, calls);
    EXPECT_EQ(behaviour->symmetric_gathers, calls);
    EXPECT_EQ(behaviour->symmetric_scatters, calls);
    EXPECT_EQ(behaviour->gathers_by_copy, 0);
  };
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const auto gpu = gpu_of(world);
    gpu->shareable = true;
    const auto all = join(world, gpu), c = all->split_beside_products(0);
    constexpr std::size_t kArena = 1 << 16;
    const std::unique_ptr<std::byte, void (*)(void*)> arena(
        static_cast<std::byte*>(std::aligned_alloc(4096, kArena)), std::free);
    ASSERT_TRUE(c->share_memory(arena.get(), kArena, Shared::kCollectives));
    EXPECT_EQ(behaviour->last_max_ctas, cuda::kMultiprocessorsOfCollectives);
    auto* const x = reinterpret_cast<float*>(arena.get());
    float *const whole = x + 400, *const part = x + 800 + 200 * c->rank();
    float outside[100];
    WorkerStream stream(1);
    const auto each = [&](float* of_sum) {
      std::fill_n(x, 200, 1.0f + static_cast<float>(c->rank()));
      c->all_reduce({x, {200}, DType::kF32}, ReduceOp::kSum, &stream);
      c->reduce_scatter({x, {200}, DType::kF32}, {of_sum, {100}, DType::kF32}, &stream);
      c->all_gather({of_sum, {100}, DType::kF32}, {whole, {200}, DType::kF32}, &stream);
      stream.synchronize();
      for (int i = 0; i < 200; ++i) EXPECT_EQ(whole[i], 6);
    };
    each(part);
    c->all_reduce({x, {1}, DType::kF32}, ReduceOp::kMax, &stream);
    c->all_reduce({x, {1}, DType::kI64}, ReduceOp::kSum, &stream);
    stream.synchronize();
    check_on_stream(*c, {61});
    world.barrier();
    expect_each(2);
    world.barrier();
    c->all_reduce({outside, {100}, DType::kF32}, ReduceOp::kSum, &stream);
    c->reduce_scatter({x, {200}, DType::kF32}, {outside, {100}, DType::kF32}, &stream);
    c->all_gather({outside, {100}, DType::kF32}, {whole, {200}, DType::kF32}, &stream);
    stream.synchronize();
    c->unshare_memory();
    each(part);
  }));
  expect_each(2);
  EXPECT_EQ(behaviour->windows, 0);
}

TEST(NcclWindow, IsDoneWithoutBetweenNodes) {
  Behaviour behaviour;
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const auto gpu = gpu_of(world);
    gpu->shareable = true;
    gpu->in_node = static_cast<uint64_t>(world.rank());
    const auto c = join(world, gpu);
    alignas(4096) static std::byte arena[4096];
    EXPECT_FALSE(c->share_memory(arena, sizeof arena, Shared::kCollectives));
    check_on_stream(*c, {61});
  }));
  EXPECT_EQ(behaviour->destroys, 2) << "no group was made for a window";
}

TEST(NcclWindow, IsDoneWithoutWhereOneRankCannot) {
  Behaviour behaviour;
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const auto gpu = gpu_of(world);
    gpu->shareable = world.rank() == 0;
    const auto c = join(world, gpu);
    alignas(4096) static std::byte arena[4096];
    EXPECT_FALSE(c->share_memory(arena, sizeof arena, Shared::kGathers));
    EXPECT_EQ(c->name(), "nccl 2.30.7");
    check_on_stream(*c, {61});
  }));
  EXPECT_EQ(behaviour->windows, 0);
}

TEST(NcclWindow, IsDoneWithoutWhereNcclRefuses) {
  Behaviour behaviour;
  behaviour->window_result = static_cast<int>(nccl::Result::kInvalidUsage);
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const auto gpu = gpu_of(world);
    gpu->shareable = true;
    const auto c = join(world, gpu);
    alignas(4096) static std::byte arena[4096];
    EXPECT_FALSE(c->share_memory(arena, sizeof arena, Shared::kGathers));
    check_on_stream(*c, {61});
  }));
  EXPECT_EQ(behaviour->aborts, 2);  // of what was made for the window
}

// Those that have opened theirs close it again.
TEST(NcclWindow, IsDoneWithoutWhereNcclRefusesOneRank) {
  expect_fine(run_as_processes(2, [](Communicator& world) {
    Behaviour behaviour;
    if (world.rank() == 1) behaviour->window_result = static_cast<int>(nccl::Result::kInvalidUsage);
    const auto gpu = gpu_of(world);
    gpu->shareable = true;
    const auto c = join(world, gpu);
    alignas(4096) static std::byte arena[4096];
    EXPECT_FALSE(c->share_memory(arena, sizeof arena, Shared::kGathers));
    EXPECT_EQ(behaviour->aborts, 1);
    check_on_stream(*c, {61});
  }));
}

// A call that was recorded in a graph comes again under its old number, however many others came since.
TEST(NcclGroups, RememberRecordedCalls) {
  Behaviour behaviour;
  expect_fine(run_as_threads(1, [](Communicator& world) {
    const auto gpu = gpu_of(world);
    nccl::Session session(load_fake_nccl(), gpu, world, patience(60s));
    nccl::Group group(session, session.make_handle(), 5, {0}, 0);
    WorkerStream stream(1, false);
    const auto launch = [&](std::size_t bytes) {
      group.launch({.bytes = bytes, .kind = CollectiveKind::kBroadcast, .dtype = DType::kU8}, &stream,
                   [](nccl::Comm) { return nccl::Result::kSuccess; });
    };
    EXPECT_EQ(group.describe(0), "no collective yet");
    launch(10);
    EXPECT_FALSE(group.replays());
    gpu->capture = 1;
    launch(20);
    gpu->capture = 0;
    EXPECT_TRUE(group.replays());
    for (int i = 0; i < 2000; ++i) launch(30);
    stream.synchronize();
    EXPECT_EQ(group.state(), 2u * 2002 + 1);
    EXPECT_EQ(group.describe(group.state()), "broadcast #2002 (from rank 0, u8, 30 bytes)");
    EXPECT_EQ(group.describe(4), "broadcast #2 (from rank 0, u8, 20 bytes)");
    EXPECT_EQ(group.describe(2), "collective #1");  // forgotten
  }));
}

TEST(NcclLibrary, MustBeNewAndWhole) {
  Behaviour behaviour;
  const auto expect_refusal = [](const nccl::SymbolLookup& lookup, const std::string& mention) {
    try {
      nccl::load_api(lookup, "/lib/libnccl.so.2");
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfiguration);
      EXPECT_NE(std::string(error.what()).find(mention), std::string::npos) << error.what();
    }
  };
  const auto all = [](const char* name) { return ::dlsym(fake_nccl(), name); };
  behaviour->version = 22707;
  expect_refusal(all, "/lib/libnccl.so.2 is version 2.27.7");
  behaviour->version = 22800;
  EXPECT_EQ(nccl::load_api(all, "").version, 22800);
  expect_refusal([&](const char* name) { return std::string(name) == "ncclCommSplit" ? nullptr : all(name); },
                 "has no function ncclCommSplit");
  const auto older = [&](const char* name) {
    return std::string(name) == "ncclCommMemStats" ? nullptr : all(name);
  };
  EXPECT_EQ(nccl::load_api(older, "").comm_mem_stats, nullptr);
}

// Where there is a real one: its functions have the names that we ask for.
TEST(NcclLibrary, TheInstalledOneIsUnderstood) {
  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) GTEST_SKIP() << "no libnccl.so.2 on the loader's path";
  const auto api = nccl::load_api([&](const char* name) { return ::dlsym(library, name); }, "libnccl.so.2");
  EXPECT_GE(api.version, nccl::kOldestVersion);
}

}  // namespace
}  // namespace recollect
