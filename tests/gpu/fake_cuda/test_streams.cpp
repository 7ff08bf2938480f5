// The fake CUDA's streams, events, memory and errors: what is legal comes out right in every order, a wait that is
// missing is seen, and each thing that CUDA refuses is refused.
#include "engine/runtime/cuda/driver.h"
#include "tests/gpu/fake_cuda/cuda.h"
#include "tests/gpu/fake_cuda/fixture.h"

namespace recollect::fake_cuda {
namespace {

using cuda::check;
using cuda::Event;
using cuda::Stream;

using FakeStreams = FakeCuda;
using FakeMemory = FakeCuda;

// A producer on one stream, a consumer on another one, and then something else in the place of what was made; with the
// waits that this needs, or without the first or the second.
std::vector<int> pass_on(RunOrder order, uint32_t seed, bool first_wait, bool second_wait) {
  restart({.order = order, .seed = seed});
  const Stream one, two;
  const Event made(cudaEventDisableTiming), taken(cudaEventDisableTiming), done(cudaEventDisableTiming);
  const Numbers<int> from(4), to(4);
  fill(from, 1, one);
  check(cudaEventRecord(made.get(), one.get()), "");
  if (first_wait) check(cudaStreamWaitEvent(two.get(), made.get(), 0), "");
  copy(to, from, two);
  check(cudaEventRecord(taken.get(), two.get()), "");
  if (second_wait) check(cudaStreamWaitEvent(one.get(), taken.get(), 0), "");
  fill(from, 2, one);
  check(cudaEventRecord(done.get(), two.get()), "");
  check(cudaStreamWaitEvent(one.get(), done.get(), 0), "");
  return to.read(one);
}

TEST_F(FakeStreams, WhatIsOrderedComesOutRightInEveryOrder) {
  for (const RunOrder order : kOrders)
    for (uint32_t seed = 0; seed < 20; ++seed)
      EXPECT_EQ(pass_on(order, seed, true, true), std::vector<int>(4, 1)) << seed;
}

#if !defined(__SANITIZE_THREAD__)  // which ends the program at such a race: races/test_stream_races.cpp
// Too late in one order, too early in the other.
TEST_F(FakeStreams, AMissingWaitIsSeen) {
  EXPECT_NE(pass_on(RunOrder::kEarly, 0, false, true), std::vector<int>(4, 1));
  EXPECT_NE(pass_on(RunOrder::kLate, 0, true, false), std::vector<int>(4, 1));
  for (const bool first : {false, true}) {
    int wrong = 0;
    for (uint32_t seed = 0; seed < 50; ++seed)
      wrong += pass_on(RunOrder::kRandom, seed, first, !first) != std::vector<int>(4, 1);
    EXPECT_GT(wrong, 5);
    EXPECT_LT(wrong, 50) << "the order is no choice";
  }
}

// This one and the next look at what is not theirs yet.
TEST_F(FakeStreams, NothingRunsBeforeSomebodyWaits) {
  const Stream stream, other;
  const Event event(cudaEventDisableTiming);
  const Numbers<int> word(1, Place::kPinned);
  *word.data() = 0;
  fill(word, 1, stream);
  EXPECT_EQ(*word.data(), 0);
  check(cudaStreamSynchronize(other.get()), "");
  EXPECT_EQ(*word.data(), 0);
  check(cudaEventRecord(event.get(), stream.get()), "");
  fill(word, 2, stream);
  check(cudaEventSynchronize(event.get()), "");
  EXPECT_EQ(*word.data(), 1);
  check(cudaDeviceSynchronize(), "");
  EXPECT_EQ(*word.data(), 2);
}

// A wait is for the latest record before it; of an event that was never recorded there is nothing to wait for.
TEST_F(FakeStreams, EventsAreWhatTheyWereWhenTheyWereWaitedFor) {
  const Stream one, two;
  const Event event(cudaEventDisableTiming);
  const Numbers<int> word(1, Place::kPinned);
  *word.data() = 0;
  check(cudaStreamWaitEvent(two.get(), event.get(), 0), "");
  fill(word, 1, one);
  check(cudaEventRecord(event.get(), one.get()), "");
  check(cudaStreamWaitEvent(two.get(), event.get(), 0), "");
  fill(word, 2, one);
  check(cudaEventRecord(event.get(), one.get()), "");
  check(cudaStreamSynchronize(two.get()), "");
  EXPECT_EQ(*word.data(), 1);
  check(cudaStreamSynchronize(one.get()), "");
}

#endif

TEST_F(FakeStreams, TimesAreOfEventsThatHaveThemAndAreOver) {
  const Stream stream;
  const Event begin(cudaEventDefault), end(cudaEventDefault), never(cudaEventDefault),
      untimed(cudaEventDisableTiming);
  const Numbers<int> word(1);
  float milliseconds = 0;
  check(cudaEventRecord(begin.get(), stream.get()), "");
  fill(word, 1, stream);
  check(cudaEventRecord(end.get(), stream.get()), "");
  check(cudaEventRecord(untimed.get(), stream.get()), "");
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), cudaErrorNotReady);
  check(cudaStreamSynchronize(stream.get()), "");
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), cudaSuccess);
  EXPECT_FLOAT_EQ(milliseconds, 2e-3f);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin.get(), never.get()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin.get(), untimed.get()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecordWithFlags(begin.get(), stream.get(), cudaEventRecordExternal),
            cudaErrorInvalidValue);
}

TEST_F(FakeStreams, AHostFunctionAsksNothingOfTheRuntime) {
  const Stream stream;
  cudaError_t answer = cudaSuccess;
  const auto ask = [](void* to) {
    void* memory = nullptr;
    *static_cast<cudaError_t*>(to) = cudaMalloc(&memory, 64);
  };
  check(cudaLaunchHostFunc(stream.get(), ask, &answer), "");
  check(cudaStreamSynchronize(stream.get()), "");
  EXPECT_EQ(answer, cudaErrorNotPermitted);
}

TEST_F(FakeStreams, HandlesAreOfTheDeviceThatMadeThem) {
  restart({.devices = 2});
  check(cudaSetDevice(1), "");
  const Event theirs(cudaEventDisableTiming);
  const Stream there;
  check(cudaSetDevice(0), "");
  const Stream here;
  EXPECT_EQ(cudaEventRecord(theirs.get(), here.get()), cudaErrorInvalidResourceHandle);
  check(cudaEventRecord(theirs.get(), there.get()), "");
  check(cudaStreamWaitEvent(here.get(), theirs.get(), 0), "waiting is for anybody's");
  const cudaLaunchConfig_t config{dim3(1), dim3(32), 0, there.get()};
  EXPECT_EQ(cudaLaunchKernelEx(
                &config, +[](int) {}, 0),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  check(cudaStreamSynchronize(there.get()), "");
}

// It is gone when the kernel runs, and no device sees it.
TEST_F(FakeStreams, AKernelIsHandedNothingOfTheStack) {
  const Stream stream;
  const Numbers<int> numbers(1);
  const cudaLaunchConfig_t config{dim3(1), dim3(32), 0, stream.get()};
  struct Both {
    int count;
    const int* from;
  };
  const int here = 3;
  EXPECT_EQ(cudaLaunchKernelEx(
                &config, +[](const int*) {}, &here),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchKernelEx(
                &config, +[](Both) {}, Both{1, &here}),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchKernelEx(
                &config, +[](Both) {}, Both{1, numbers.data()}),
            cudaSuccess);
  check(cudaStreamSynchronize(stream.get()), "");
}

TEST_F(FakeStreams, HandlesThatAreGoneAreRefused) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "");
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "");
  check(cudaStreamDestroy(stream), "");
  check(cudaEventDestroy(event), "");
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
}

// What a kernel does wrong comes to light at the next wait, and stays.
TEST_F(FakeStreams, AKernelThatFailsLeavesADeadDevice) {
  {
    const Stream stream;
    const Numbers<int> word(1);
    const cudaLaunchConfig_t config{dim3(1), dim3(64), 0, stream.get()};
    const auto diverge = +[](int threads) {
      if (static_cast<int>(threadIdx.x) < threads) __syncthreads();
    };
    EXPECT_EQ(cudaLaunchKernelEx(&config, diverge, 40), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorLaunchFailure);
    EXPECT_NE(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("threads never reach the barrier"),
              std::string::npos);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorLaunchFailure);
  }
  restart({});
}

TEST_F(FakeStreams, AnErrorIsTheLastOneUntilSomebodyAsks) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, std::size_t{1} << 40), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(FakeMemory, WhatIsNewHoldsNoNumbers) {
  const Stream stream;
  const Numbers<float> numbers(3);
  for (const float x : numbers.read(stream)) EXPECT_TRUE(std::isnan(x));
}

TEST_F(FakeMemory, CopiesAndFillsEndWhereMemoryDoes) {
  const Stream stream;
  const Numbers<int> device(4), pinned(4, Place::kPinned);
  int pageable[4] = {};
  EXPECT_EQ(cudaMemcpyAsync(device.data() + 1, pinned.data(), 16, cudaMemcpyDefault, stream.get()),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pinned.data() + 1, device.data(), 16, cudaMemcpyDefault, stream.get()),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pinned.data(), device.data(), 16, cudaMemcpyHostToDevice, stream.get()),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device.data(), 0, 17, stream.get()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(pageable, 0, 16, stream.get()), cudaErrorInvalidValue);
  check(cudaMemsetAsync(device.data(), 0, 16, stream.get()), "");
  EXPECT_EQ(device.read(stream), std::vector<int>(4, 0));
}

// What is not pinned is copied away when a copy is asked for, and what goes there is there when the call returns.
TEST_F(FakeMemory, PageableMemoryIsCopiedAtOnce) {
  const Stream stream;
  const Numbers<int> device(2), pinned(2, Place::kPinned);
  int pageable[2] = {3, 4};
  check(cudaMemcpyAsync(device.data(), pageable, sizeof pageable, cudaMemcpyDefault, stream.get()), "");
  pageable[0] = 9;
  EXPECT_EQ(device.read(stream), (std::vector<int>{3, 4}));
#if !defined(__SANITIZE_THREAD__)
  pinned.data()[0] = 3, pinned.data()[1] = 4;
  check(cudaMemcpyAsync(device.data(), pinned.data(), pinned.bytes(), cudaMemcpyDefault, stream.get()), "");
  pinned.data()[0] = 9;
  EXPECT_EQ(device.read(stream), (std::vector<int>{9, 4})) << "pinned memory is read when the copy runs";
#endif
}

TEST_F(FakeMemory, OneThatIsFreedIsNoMoreAndCannotBeFreedAgain) {
  void *device = nullptr, *pinned = nullptr;
  check(cudaMalloc(&device, 100), "");
  check(cudaHostAlloc(&pinned, 100, cudaHostAllocPortable), "");
  EXPECT_EQ(cudaFreeHost(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(static_cast<std::byte*>(device) + 4), cudaErrorInvalidValue);
  check(cudaFree(device), "");
  check(cudaFreeHost(pinned), "");
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

TEST_F(FakeMemory, WhatIsWrittenJustBehindAPieceIsTold) {
  {
    const Stream stream;
    const Numbers<char> numbers(5);
    check(enqueue(stream.get(), [data = numbers.data()] { data[7] = 1; }), "");
  }
  EXPECT_NE(world().what_is_left().find("something was written behind a piece of 5 bytes"),
            std::string::npos);
  restart({});
}

TEST_F(FakeMemory, WhatIsForgottenIsCounted) {
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "");
  check(cudaMalloc(&memory, 8), "");
  EXPECT_EQ(world().what_is_left(), "1 streams, 1 pieces of memory");
  check(cudaStreamDestroy(stream), "");
  check(cudaFree(memory), "");
}

// As an arena is that other processes' devices may map: addresses, then memory behind them, then access to it. The driver
// has a handle of such memory alone.
TEST_F(FakeMemory, WhatTheDriverMapsIsForThoseWithAccess) {
  restart({.devices = 2, .memory = std::size_t{8} << 20});
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const Stream stream;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  kind.allocFlags.gpuDirectRDMACapable = 1;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle memory = 0, found = 0;
  const auto create = cuda::driver_function<PFN_cuMemCreate_v10020>("cuMemCreate", 10020);
  const auto map = cuda::driver_function<PFN_cuMemMap_v10020>("cuMemMap", 10020);
  const auto set_access = cuda::driver_function<PFN_cuMemSetAccess_v10020>("cuMemSetAccess", 10020);
  const auto retain =
      cuda::driver_function<PFN_cuMemRetainAllocationHandle_v11000>("cuMemRetainAllocationHandle", 11000);
  const auto release = cuda::driver_function<PFN_cuMemRelease_v10020>("cuMemRelease", 10020);
  const auto unmap = cuda::driver_function<PFN_cuMemUnmap_v10020>("cuMemUnmap", 10020);
  const auto give_back = cuda::driver_function<PFN_cuMemAddressFree_v10020>("cuMemAddressFree", 10020);
  EXPECT_EQ(create(&memory, kBytes + 1, &kind, 0), CUDA_ERROR_INVALID_VALUE) << "whole pieces";
  EXPECT_EQ(create(&memory, 3 * kBytes, &kind, 0), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(create(&memory, kBytes, &kind, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuda::driver_function<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve", 10020)(
                &address, kBytes, 0, 0, 0),
            CUDA_SUCCESS);
  void* const base = reinterpret_cast<void*>(address);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_EQ(set_access(address, kBytes, &access, 1), CUDA_ERROR_INVALID_VALUE) << "of what is not mapped";
  ASSERT_EQ(map(address, kBytes, 0, memory, 0), CUDA_SUCCESS);
  EXPECT_EQ(map(address, kBytes, 0, memory, 0), CUDA_ERROR_INVALID_VALUE) << "twice";
  EXPECT_EQ(cudaMemsetAsync(base, 0, 64, stream.get()), cudaErrorInvalidValue) << "before there is access";
  access.location.id = 1;
  EXPECT_EQ(set_access(address, kBytes, &access, 1), CUDA_ERROR_INVALID_VALUE)
      << "for a device that is not linked";
  access.location.id = 0;
  ASSERT_EQ(set_access(address, kBytes, &access, 1), CUDA_SUCCESS);
  check(cudaMemsetAsync(base, 0, kBytes, stream.get()), "");
  check(cudaStreamSynchronize(stream.get()), "");
  EXPECT_EQ(retain(&found, base), CUDA_SUCCESS);
  EXPECT_EQ(found, memory);
  EXPECT_NE(world().what_is_left().find("2 handles of memory"), std::string::npos);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(release(memory), CUDA_SUCCESS) << "the mapping keeps the memory";
  EXPECT_EQ(give_back(address, kBytes), CUDA_ERROR_INVALID_VALUE) << "while they are mapped";
  EXPECT_EQ(unmap(address, kBytes / 2), CUDA_ERROR_INVALID_VALUE) << "in part";
  ASSERT_EQ(unmap(address, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(give_back(address, kBytes), CUDA_SUCCESS);
  void* plain = nullptr;
  check(cudaMalloc(&plain, 64), "");
  EXPECT_EQ(retain(&found, plain), CUDA_ERROR_INVALID_VALUE);
  check(cudaFree(plain), "");
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(FakeMemory, TheHostCannotTouchADevicesMemory) {
  const Numbers<int> numbers(1);
  EXPECT_DEATH(*const_cast<volatile int*>(numbers.data()) = 1, "");
}

TEST_F(FakeMemory, APageBehindAPieceCannotBeTouched) {
  const Numbers<char> pinned(256, Place::kPinned);
  EXPECT_DEATH(*const_cast<volatile char*>(pinned.data() + 256) = 1, "");
}
#endif

TEST_F(FakeMemory, HasAnEnd) {
  restart({.memory = 1 << 20, .pinned = 1 << 20});
  std::size_t free = 0, total = 0;
  void *most = nullptr, *more = nullptr;
  check(cudaMalloc(&most, (1 << 20) - 4096), "");
  check(cudaMemGetInfo(&free, &total), "");
  EXPECT_EQ(free, 4096u);
  EXPECT_EQ(total, 1u << 20);
  EXPECT_EQ(cudaMalloc(&more, 4097), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaHostAlloc(&more, (1 << 20) + 1, cudaHostAllocDefault), cudaErrorMemoryAllocation);
  check(cudaFree(most), "");
}

}  // namespace
}  // namespace recollect::fake_cuda
