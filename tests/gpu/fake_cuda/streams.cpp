// Streams, what is put on them, and events.
#include <pthread.h>

#include <cstring>
#include <map>

#include "tests/gpu/emulation/watch.h"
#include "tests/gpu/fake_cuda/call.h"

using namespace recollect::fake_cuda;
namespace test = recollect::test;

namespace {

constexpr std::size_t kUsualShared = 48 << 10, kMostShared = 227 << 10;

thread_local std::map<const void*, std::size_t> allowed_shared;  // by kernel

void enqueue_job(test::StreamAbi* self, std::unique_ptr<test::StreamJob> job) {
  auto* const stream = static_cast<cudaStream_t>(self);
  call_on(stream, [&](World& w, World::Lock&) {
    w.put(stream, std::move(job));
    return cudaSuccess;
  });
}

// On the default stream, which no capture of the thread may be beside.
template <typename Work>
cudaError_t at_once(const Work& work) {
  const cudaError_t status = call([](World& w, World::Lock&) {
    return w.capture_forbids() ? cudaErrorStreamCaptureImplicit : cudaSuccess;
  });
  if (status == cudaSuccess) work();
  return status;
}

cudaError_t refuse_capture(const std::shared_ptr<Capture>& capture, cudaError_t why) {
  if (capture) capture->invalid = true;
  return why;
}

cudaError_t wait_in_capture(cudaStream_t stream, const EventState& event) {
  if (event.capture->over) return refuse_capture(stream->capture, cudaErrorCapturedEvent);
  if (stream->capture && stream->capture != event.capture) {
    stream->capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream->capture = event.capture;
  stream->capture->join(stream, event.nodes);
  return cudaSuccess;
}

cudaError_t record(World& w, EventState& event, const std::shared_ptr<EventState>& shared,
                   cudaStream_t stream, unsigned flags) {
  if (event.device != stream->device) return cudaErrorInvalidResourceHandle;
  const bool external = flags == cudaEventRecordExternal;
  if (flags != cudaEventRecordDefault && !external) return cudaErrorInvalidValue;
  if (stream->capture && external) {
    stream->capture->add(stream, nullptr, shared);
  } else if (stream->capture) {
    event.recorded = nullptr;
    event.capture = stream->capture;
    event.nodes = stream->capture->latest[stream];
  } else {
    if (external) return cudaErrorInvalidValue;
    event.capture = nullptr;
    event.recorded = w.mark(stream);
  }
  return cudaSuccess;
}

}  // namespace

CUstream_st::CUstream_st(int of_device, void (*enqueue)(StreamAbi*, std::unique_ptr<test::StreamJob>))
    : StreamAbi{enqueue}, device(of_device), queue(std::make_shared<Queue>()) {
  queue->device = of_device;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&](World& w, World::Lock&) {
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;  // others wait for the default stream
    auto* made = new CUstream_st(caller().device, enqueue_job);
    *stream = made;
    w.streams.insert(made);
    return cudaSuccess;
  });
}

// What it holds is still done.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&](World& w, World::Lock&) {
    if (w.streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
    if (stream->capture) {
      stream->capture->invalid = true;
      stream->capture->streams.erase(stream);
    }
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call_on(stream, [&](World& w, World::Lock& lock) {
    if (w.capture_forbids() || stream->capture)
      return refuse_capture(stream->capture, cudaErrorStreamCaptureUnsupported);
    w.finish(w.mark(stream), lock);
    return w.death(stream->device).empty() ? cudaSuccess : cudaErrorLaunchFailure;
  });
}

// In a capture an event must be one of its own. Elsewhere one that was never recorded is over.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call_on(stream, [&](World& w, World::Lock&) {
    if (!w.events.contains(event)) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (event->state->capture) return wait_in_capture(stream, *event->state);
    if (stream->capture) return refuse_capture(stream->capture, cudaErrorStreamCaptureIsolation);
    if (event->state->recorded) stream->awaits.push_back(event->state->recorded);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument) {
  return call_on(stream, [&](World& w, World::Lock&) {
    w.put(stream, job_of([=] { function(argument); }));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](World& w, World::Lock&) {
    if ((flags & ~cudaEventDisableTiming) != 0) return cudaErrorInvalidValue;
    const bool timed = (flags & cudaEventDisableTiming) == 0;
    *event =
        new CUevent_st{std::make_shared<EventState>(EventState{.device = caller().device, .timed = timed})};
    w.events.insert(*event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](World& w, World::Lock&) {
    if (w.events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call_on(stream, [&](World& w, World::Lock&) {
    if (!w.events.contains(event)) return cudaErrorInvalidResourceHandle;
    return record(w, *event->state, event->state, stream, flags);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](World& w, World::Lock& lock) {
    if (!w.events.contains(event)) return cudaErrorInvalidResourceHandle;
    if (event->state->capture) return refuse_capture(event->state->capture, cudaErrorCapturedEvent);
    if (w.capture_forbids()) return cudaErrorStreamCaptureUnsupported;
    if (const WorkPointer recorded = event->state->recorded) w.finish(recorded, lock);
    return w.death(event->state->device).empty() ? cudaSuccess : cudaErrorLaunchFailure;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call([&](World& w, World::Lock&) {
    if (!w.events.contains(begin) || !w.events.contains(end)) return cudaErrorInvalidResourceHandle;
    for (const cudaEvent_t event : {begin, end}) {
      if (event->state->capture) return cudaErrorCapturedEvent;
      if (!event->state->timed || !event->state->recorded) return cudaErrorInvalidResourceHandle;
    }
    for (const cudaEvent_t event : {begin, end})
      if (!event->state->recorded->done) return cudaErrorNotReady;
    const double ended = static_cast<double>(end->state->recorded->ended);
    *milliseconds = static_cast<float>(1e-6 * (ended - static_cast<double>(begin->state->recorded->ended)));
    return cudaSuccess;
  });
}

// Once for all threads' launches of a kernel, in CUDA; here each thread says it for its own.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (static_cast<std::size_t>(value) > kMostShared) return said(cudaErrorInvalidValue);
  allowed_shared[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

namespace recollect::fake_cuda {

bool points_to_stack(const void* argument, std::size_t bytes) {
  static thread_local const std::byte* const top = [] {
    pthread_attr_t attributes;
    void* low = nullptr;
    std::size_t size = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    return static_cast<const std::byte*>(low) + size;
  }();
  const auto* const here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const std::byte* word = nullptr;
  for (std::size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
    std::memcpy(&word, static_cast<const std::byte*>(argument) + at, sizeof word);
    if (word >= here && word < top) return true;
  }
  return false;
}

cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config, std::function<void()> thread,
                   bool hands_over_stack) {
  const auto allowed = allowed_shared.find(kernel);
  const std::size_t most = allowed == allowed_shared.end() ? kUsualShared : allowed->second;
  const dim3 grid = config.gridDim, block = config.blockDim;
  const std::size_t shared = config.dynamicSmemBytes;
  if (shared > most || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return said(cudaErrorInvalidValue);
  if (!config.stream)
    return at_once([&] {
      const emulation::WatchedLaunch watched(kernel, grid, block);
      emulation::run_grid(grid, block, shared, thread);
    });
  return call_on(config.stream, [&](World& w, World::Lock&) {
    if (config.stream->device != caller().device) return cudaErrorInvalidResourceHandle;
    if (hands_over_stack) return cudaErrorInvalidValue;
    const auto order = w.schedule().flip() ? emulation::Order::kForward : emulation::Order::kBackward;
    w.put(config.stream, job_of([=] {
            emulation::set_order(order);
            emulation::run_grid(grid, block, shared, thread);
          }),
          w.kernel_cost());
    if (!config.stream->capture) ++w.launches;
    return cudaSuccess;
  });
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (!stream) return at_once(work);
  return call_on(stream, [&](World& w, World::Lock&) {
    w.put(stream, job_of(std::move(work)), w.kernel_cost());
    return cudaSuccess;
  });
}

}  // namespace recollect::fake_cuda
