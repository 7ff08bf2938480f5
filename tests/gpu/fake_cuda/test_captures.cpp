// What the fake CUDA captures and replays; and, rule by rule, what a capture forbids.
#include <thread>

#include "tests/gpu/fake_cuda/fixture.h"

namespace recollect::fake_cuda {
namespace {

using cuda::check;
using cuda::Event;
using cuda::Stream;

class FakeCaptures : public FakeCuda {
 protected:
  static void begin(const Stream& stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    check(cudaStreamBeginCapture(stream.get(), mode), "");
  }

  // That the capture ends so; a graph is given back.
  static void expect_end(const Stream& stream, cudaError_t expected) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), expected) << cudaGetErrorName(expected);
    EXPECT_EQ(graph != nullptr, expected == cudaSuccess);
    if (graph) check(cudaGraphDestroy(graph), "");
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    check(cudaStreamIsCapturing(stream.get(), &status), "");
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  }

  // That a capture in which `function` gets `refusal` is lost.
  template <typename Function>
  static void expect_lost(cudaError_t refusal, Function function) {
    const Stream stream;
    const Numbers<int> word(1);
    begin(stream);
    fill(word, 1, stream);
    EXPECT_EQ(function(stream), refusal) << cudaGetErrorName(refusal);
    EXPECT_EQ(cudaMemsetAsync(word.data(), 0, 4, stream.get()), cudaErrorStreamCaptureInvalidated);
    expect_end(stream, cudaErrorStreamCaptureInvalidated);
  }
};

TEST_F(FakeCaptures, AGraphDoesItAllAgainEachTime) {
  for (const RunOrder order : {RunOrder::kLate, RunOrder::kEarly, RunOrder::kRandom}) {
    restart({.order = order});
    const Stream one, two;
    const Event forked(cudaEventDisableTiming), joined(cudaEventDisableTiming);
    const Event begin_time(cudaEventDefault), end_time(cudaEventDefault);
    const Numbers<int> in(1, Place::kPinned), there(1), out(1, Place::kPinned);
    begin(one);
    check(cudaEventRecordWithFlags(begin_time.get(), one.get(), cudaEventRecordExternal), "");
    copy(there, in, one);
    check(cudaEventRecord(forked.get(), one.get()), "");
    check(cudaStreamWaitEvent(two.get(), forked.get(), 0), "");
    check(enqueue(two.get(), [data = there.data()] { *data *= 10; }), "");
    check(cudaEventRecord(joined.get(), two.get()), "");
    check(cudaStreamWaitEvent(one.get(), joined.get(), 0), "");
    copy(out, there, one);
    check(cudaEventRecordWithFlags(end_time.get(), one.get(), cudaEventRecordExternal), "");
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    check(cudaStreamEndCapture(one.get(), &graph), "");
    *out.data() = 0;
    check(cudaStreamSynchronize(one.get()), "");
    EXPECT_EQ(*out.data(), 0) << "a capture runs nothing";
    check(cudaGraphInstantiate(&ready, graph, 0), "");
    check(cudaGraphDestroy(graph), "");
    for (int i = 1; i < 4; ++i) {
      *in.data() = i;
      check(cudaGraphLaunch(ready, one.get()), "");
      check(cudaStreamSynchronize(one.get()), "");
      EXPECT_EQ(*out.data(), 10 * i);
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_time.get(), end_time.get()), "");
      EXPECT_FLOAT_EQ(milliseconds, 4e-3f);
    }
    check(cudaGraphExecDestroy(ready), "");
  }
}

// Of a graph that is launched twice before anybody waits, the second comes after the first, on whatever stream.
TEST_F(FakeCaptures, LaunchesOfOneGraphDoNotOverlap) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    restart({.order = RunOrder::kRandom, .seed = seed});
    const Stream one, two;
    const Numbers<int> sum(1, Place::kPinned);
    *sum.data() = 1;
    begin(one);
    for (int i = 0; i < 3; ++i)
      check(enqueue(one.get(), [data = sum.data(), i] { *data = *data * 3 + i; }), "");
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    check(cudaStreamEndCapture(one.get(), &graph), "");
    check(cudaGraphInstantiate(&ready, graph, 0), "");
    check(cudaGraphLaunch(ready, one.get()), "");
    check(cudaGraphLaunch(ready, two.get()), "");
    check(cudaStreamSynchronize(two.get()), "");
    EXPECT_EQ(*sum.data(), (27 + 5) * 27 + 5);
    check(cudaGraphExecDestroy(ready), "");
    check(cudaGraphDestroy(graph), "");
  }
}

TEST_F(FakeCaptures, NothingMayWaitForADevice) {
  expect_lost(cudaErrorStreamCaptureUnsupported,
              [](const Stream& s) { return cudaStreamSynchronize(s.get()); });
  expect_lost(cudaErrorStreamCaptureUnsupported, [](const Stream&) { return cudaDeviceSynchronize(); });
  const Stream other;
  expect_lost(cudaErrorStreamCaptureUnsupported,
              [&](const Stream&) { return cudaStreamSynchronize(other.get()); });
  const Event event(cudaEventDisableTiming);
  check(cudaEventRecord(event.get(), other.get()), "");
  expect_lost(cudaErrorStreamCaptureUnsupported,
              [&](const Stream&) { return cudaEventSynchronize(event.get()); });
  check(cudaStreamSynchronize(other.get()), "");
}

TEST_F(FakeCaptures, NothingMayBeReservedOrGivenBack) {
  void* memory = nullptr;
  expect_lost(cudaErrorStreamCaptureUnsupported, [&](const Stream&) { return cudaMalloc(&memory, 8); });
  expect_lost(cudaErrorStreamCaptureUnsupported,
              [&](const Stream&) { return cudaHostAlloc(&memory, 8, cudaHostAllocDefault); });
  check(cudaMalloc(&memory, 8), "");
  expect_lost(cudaErrorStreamCaptureUnsupported, [&](const Stream&) { return cudaFree(memory); });
  check(cudaFree(memory), "");
  check(cudaHostAlloc(&memory, 8, cudaHostAllocDefault), "");
  expect_lost(cudaErrorStreamCaptureUnsupported, [&](const Stream&) { return cudaFreeHost(memory); });
  check(cudaFreeHost(memory), "");
}

TEST_F(FakeCaptures, NothingComesOnTheDefaultStream) {
  expect_lost(cudaErrorStreamCaptureImplicit, [](const Stream&) { return enqueue(nullptr, [] {}); });
  const cudaLaunchConfig_t config{dim3(1), dim3(32), 0, nullptr};
  expect_lost(cudaErrorStreamCaptureImplicit, [&](const Stream&) {
    return cudaLaunchKernelEx(
        &config, +[](int) {}, 0);
  });
}

// It may be gone when the graph is replayed.
TEST_F(FakeCaptures, NothingIsCopiedFromOrToPageableMemory) {
  const Numbers<int> device(1);
  int pageable = 3;
  expect_lost(cudaErrorStreamCaptureUnsupported, [&](const Stream& s) {
    return cudaMemcpyAsync(device.data(), &pageable, 4, cudaMemcpyDefault, s.get());
  });
  expect_lost(cudaErrorStreamCaptureUnsupported, [&](const Stream& s) {
    return cudaMemcpyAsync(&pageable, device.data(), 4, cudaMemcpyDefault, s.get());
  });
}

TEST_F(FakeCaptures, AnEventOfOutsideIsNotWaitedFor) {
  const Stream other;
  const Event never(cudaEventDisableTiming), outside(cudaEventDisableTiming);
  check(cudaEventRecord(outside.get(), other.get()), "");
  for (const Event* event : {&never, &outside})
    expect_lost(cudaErrorStreamCaptureIsolation,
                [&](const Stream& s) { return cudaStreamWaitEvent(s.get(), event->get(), 0); });
  check(cudaStreamSynchronize(other.get()), "");
}

TEST_F(FakeCaptures, AnEventOfACaptureIsNoOtherEvent) {
  const Stream stream, other;
  const Event event(cudaEventDefault), begun(cudaEventDefault);
  check(cudaEventRecord(begun.get(), other.get()), "");
  begin(stream);
  check(cudaEventRecord(event.get(), stream.get()), "");
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaErrorCapturedEvent);
  expect_end(stream, cudaErrorStreamCaptureInvalidated);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begun.get(), event.get()), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(other.get(), event.get(), 0), cudaErrorCapturedEvent);
  check(cudaEventRecord(event.get(), other.get()), "");
  check(cudaStreamWaitEvent(other.get(), event.get(), 0), "recorded again");
  check(cudaStreamSynchronize(other.get()), "");
}

TEST_F(FakeCaptures, AForkIsJoinedBeforeTheEnd) {
  const Stream one, two;
  const Event forked(cudaEventDisableTiming), joined(cudaEventDisableTiming);
  const Numbers<int> word(1);
  for (const bool late : {false, true}) {
    begin(one);
    check(cudaEventRecord(forked.get(), one.get()), "");
    check(cudaStreamWaitEvent(two.get(), forked.get(), 0), "");
    fill(word, 1, two);
    if (late) {  // joined, and then something more
      check(cudaEventRecord(joined.get(), two.get()), "");
      check(cudaStreamWaitEvent(one.get(), joined.get(), 0), "");
      fill(word, 2, two);
    }
    expect_end(one, cudaErrorStreamCaptureUnjoined);
    fill(word, 3, two);
    EXPECT_EQ(word.read(two), std::vector<int>(1, 3)) << "the fork is over with the capture";
  }
}

TEST_F(FakeCaptures, TwoAreNotMixed) {
  const Stream one, two;
  const Event event(cudaEventDisableTiming);
  begin(one);
  begin(two);
  check(cudaEventRecord(event.get(), one.get()), "");
  EXPECT_EQ(cudaStreamWaitEvent(two.get(), event.get(), 0), cudaErrorStreamCaptureMerge);
  expect_end(one, cudaErrorStreamCaptureInvalidated);
  expect_end(two, cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCaptures, BeginAndEndBelongTogether) {
  const Stream one, two;
  const Event forked(cudaEventDisableTiming);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(one.get(), &graph), cudaErrorIllegalState);
  begin(one);
  EXPECT_EQ(cudaStreamBeginCapture(one.get(), cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
  check(cudaEventRecord(forked.get(), one.get()), "");
  check(cudaStreamWaitEvent(two.get(), forked.get(), 0), "");
  EXPECT_EQ(cudaStreamEndCapture(two.get(), &graph), cudaErrorStreamCaptureUnmatched);
  expect_end(one, cudaErrorStreamCaptureInvalidated);
  begin(one);
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(one.get(), &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  expect_end(one, cudaSuccess);
}

// Another thread may reserve memory meanwhile, unless the capture says that nobody may.
TEST_F(FakeCaptures, ForbidsItsOwnThreadOrAll) {
  const auto reserve = [] {
    cudaError_t status = cudaSuccess;
    std::thread([&] {
      void* memory = nullptr;
      status = cudaMalloc(&memory, 8);
      if (memory) cudaFree(memory);
    }).join();
    return status;
  };
  const Stream stream;
  begin(stream);
  EXPECT_EQ(reserve(), cudaSuccess);
  expect_end(stream, cudaSuccess);
  begin(stream, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(reserve(), cudaErrorStreamCaptureUnsupported);
  expect_end(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCaptures, AGraphIsNotCaptured) {
  const Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  begin(stream);
  check(cudaStreamEndCapture(stream.get(), &graph), "");
  check(cudaGraphInstantiate(&ready, graph, 0), "");
  check(cudaGraphDestroy(graph), "");
  EXPECT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaErrorInvalidValue) << "it is no more";
  expect_lost(cudaErrorStreamCaptureUnsupported,
              [&](const Stream& s) { return cudaGraphLaunch(ready, s.get()); });
  check(cudaGraphExecDestroy(ready), "");
  EXPECT_EQ(cudaGraphLaunch(ready, stream.get()), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace recollect::fake_cuda
