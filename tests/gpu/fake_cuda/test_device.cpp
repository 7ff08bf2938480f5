// A device and its streams (engine/runtime/cuda) with ops that a test makes up: what may be taken for
// granted when they begin, and what becomes of calls that fail.
#include <functional>
#include <thread>

#include "engine/graph/op_builder.h"
#include "engine/ops/ops.h"
#include "engine/runtime/cuda/device.h"
#include "engine/runtime/cuda/enqueue.h"
#include "engine/runtime/cuda/launch.h"
#include "engine/runtime/cuda/streams.h"
#include "tests/engine/expect_error.h"
#include "tests/gpu/fake_cuda/fixture.h"

namespace recollect::fake_cuda {
namespace {

using cuda::check;
using cuda::DeviceStreams;
using cuda::Graphs;
using test::expect_error;

// Two copies beside two ops that compute: kAway waits for kMake, and kLast for kAway.
enum : OpId { kBeside, kMake, kAway, kLast, kOps };

using Work = std::function<void(OpId, cudaStream_t, const KernelArgs&)>;

class FakeDevice : public FakeCuda {
 protected:
  FakeDevice() {
    register_engine_ops(registry_);
    OpBuilder ops(graph_, registry_);
    const ValueId x = graph_.add_value({.name = "x", .shape = {4}, .persistent = true});
    const auto add = [&](const char* name, StreamId stream, ValueId a, ValueId b) {
      ops.common().stream = stream;
      return ops.append(name, "add", {}, {a, b}).outputs.front();
    };
    const ValueId beside = add("beside", StreamId::kDeviceToHost, x, x);
    const ValueId made = add("make", StreamId::kCompute, x, x);
    const ValueId away = add("away", StreamId::kDeviceToHost, made, beside);
    add("last", StreamId::kCompute, away, away);
    schedule_ = make_schedule(graph_);
  }

  // In which every op does `work`.
  DeviceStreams streams(Work work, Graphs graphs = Graphs::kPreferred) const {
    const auto run = [work = std::move(work)](OpId id, const KernelArgs& args) {
      work(id, static_cast<cudaStream_t>(args.stream), args);
    };
    return {{.graph = graph_, .schedule = schedule_, .run = run, .before = {}, .after = {}}, graphs};
  }
  static void run(DeviceStreams& streams, int64_t step, bool training = true) {
    streams.run(0, kOps, {.step = step, .training = training});
  }

 private:
  OpRegistry registry_;
  Graph graph_;
  recollect::Schedule schedule_;
};

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "");
  return status != cudaStreamCaptureStatusNone;
}

// Those that wait for nothing too.
TEST_F(FakeDevice, EveryStreamBeginsBehindTheRunsState) {
  for (const RunOrder order : kOrders) {
    restart({.order = order});
    const Numbers<RunState> seen(kOps, Place::kPinned);
    DeviceStreams s = streams([&](OpId id, cudaStream_t stream, const KernelArgs& args) {
      check(cudaMemcpyAsync(seen.data() + id, args.device_state, sizeof(RunState), cudaMemcpyDefault, stream),
            "");
    });
    for (int64_t step = 1; step < 4; ++step)
      for (const bool training : {true, false}) {  // two programs for the device
        run(s, step, training);
        for (OpId id = 0; id < kOps; ++id) {
          EXPECT_EQ(seen.data()[id].step, step) << id;
          EXPECT_EQ(seen.data()[id].training, training) << id;
        }
      }
    EXPECT_EQ(world().replays, 2 * 2);
  }
}

TEST_F(FakeDevice, TimesOfAnOpAreTakenOnItsStream) {
  for (const RunOrder order : kOrders) {
    restart({.order = order});
    const Numbers<int> words(kOps);
    DeviceStreams s = streams([&](OpId id, cudaStream_t stream, const KernelArgs&) {
      for (int i = 0; i < 3; ++i) check(cudaMemsetAsync(words.data() + id, 0, sizeof(int), stream), "");
    });
    s.time_ops(true);
    run(s, 0);
    const std::vector<RunTimes::OpSpan>& ops = s.times()->ops;
    for (const RunTimes::OpSpan& op : ops) EXPECT_GT(op.end - op.begin, 2.9e-6);
    for (const auto& [first, second] :
         {std::pair{kBeside, kAway}, {kMake, kAway}, {kMake, kLast}, {kAway, kLast}})
      EXPECT_GT(ops[second].begin, ops[first].end) << first << " and " << second;
  }
}

// Other threads may reserve memory while a step is captured, as those that read data do.
TEST_F(FakeDevice, ACaptureIsNothingToOtherThreads) {
  DeviceStreams s = streams([](OpId, cudaStream_t, const KernelArgs&) {
    std::thread([] {
      void* memory = nullptr;
      cudaMalloc(&memory, 8);
      cudaFree(memory);
    }).join();
  });
  run(s, 0);
  run(s, 1);
  EXPECT_EQ(world().replays, 1);
}

TEST_F(FakeDevice, APeerThatIsLostDuringACaptureEndsTheRun) {
  DeviceStreams s = streams([](OpId id, cudaStream_t stream, const KernelArgs&) {
    if (id == kAway && is_captured(stream)) throw Error(ExitCode::kPeerLost, "rank 1 is lost");
  });
  run(s, 0);
  expect_error(ExitCode::kPeerLost, {"rank 1 is lost"}, [&] { run(s, 1); });
}

TEST_F(FakeDevice, AGraphThatIsNotLaunchedIsAnError) {
  DeviceStreams s = streams([](OpId, cudaStream_t, const KernelArgs&) {});
  run(s, 0);
  run(s, 1);
  const auto graphs = std::exchange(world().ready_graphs, {});
  expect_error(ExitCode::kInternal, {"launching a step's graph"}, [&] { run(s, 2); });
  world().ready_graphs = graphs;
}

// In an evaluation too, of which no times are read.
TEST_F(FakeDevice, AKernelThatFailsIsNoticedAtTheEndOfItsRun) {
  {
    DeviceStreams s = streams([](OpId id, cudaStream_t stream, const KernelArgs&) {
      const auto diverge = +[] {
        if (threadIdx.x < 40) __syncthreads();
      };
      if (id == kBeside) cuda::launch(diverge, dim3(1), dim3(64), 0, stream);
    });
    expect_error(ExitCode::kInternal, {"running a step", "threads never reach the barrier"},
                 [&] { run(s, 0, false); });
  }
  restart({});
}

TEST_F(FakeDevice, AKernelThatIsNotLaunchedIsAnError) {
  const cuda::Stream stream;
  expect_error(ExitCode::kInternal, {"a kernel's launch"}, [&] {
    cuda::launch(
        +[] {}, dim3(1), dim3(32), 64 << 10, stream.get());
  });
}

// Libraries ask for the last error, and would take it for their own.
TEST_F(FakeDevice, WhatWasDealtWithIsNoLastError) {
  EXPECT_FALSE(cuda::shares(
      +[] {}, 300 << 10));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "shared memory";

  testing::internal::CaptureStderr();  // both are told
  restart({.pinned = 64});
  cuda::make_device({})->reserve(MemorySpace::kHost, 4096);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "pinned memory";

  restart({});
  DeviceStreams s = streams([](OpId, cudaStream_t, const KernelArgs&) { cudaDeviceSynchronize(); });
  run(s, 0);
  run(s, 1);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a capture";
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cannot be captured"), std::string::npos) << said;
}

// What the default stream had of it would end the capture.
TEST_F(FakeDevice, WhatIsEnqueuedIsOnTheStreamThatIsNamed) {
  const cuda::Stream stream;
  const Numbers<float> numbers(64);
  const Numbers<bf16> halves(64);
  const Numbers<int64_t> hash(1);
  int calls = 0;
  const Tensor single{numbers.data(), {64}, DType::kF32}, half{halves.data(), {64}, DType::kBF16};
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "");
  cuda::clear_bytes(numbers.data(), numbers.bytes(), stream.get());
  cuda::convert(single, half, stream.get());
  cuda::accumulate(single, single, stream.get());
  cuda::copy_bytes(numbers.data(), halves.data(), halves.bytes(), stream.get());
  cuda::hash_bytes(numbers.data(), numbers.bytes(), hash.data(), stream.get());
  cuda::call_on_host([](void* count) { ++*static_cast<int*>(count); }, &calls, stream.get());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  EXPECT_EQ(graph->nodes.size(), 7u) << "a hash is cleared, and then added up";
  check(cudaGraphDestroy(graph), "");
  EXPECT_EQ(calls, 0);
}

TEST_F(FakeDevice, AnArenaIsZeroFromTheFirstUseOn) {
  const cuda::Stream stream;
  const auto device = cuda::make_device({});
  const Arena arena = device->reserve(MemorySpace::kDevice, 4 * sizeof(int));
  const Numbers<int> numbers(4, Place::kPinned);
  check(cudaMemcpyAsync(numbers.data(), arena.at(0), arena.bytes(), cudaMemcpyDefault, stream.get()), "");
  EXPECT_EQ(numbers.read(stream), std::vector<int>(4, 0));
}

}  // namespace
}  // namespace recollect::fake_cuda
