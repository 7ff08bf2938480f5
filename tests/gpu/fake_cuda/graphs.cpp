// Captures, and the graphs that they end as.
#include "tests/gpu/fake_cuda/call.h"

using namespace recollect::fake_cuda;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (!stream) return said(cudaErrorStreamCaptureUnsupported);
  return call_on(stream, [&](World& w, World::Lock&) {
    if (stream->capture) return cudaErrorIllegalState;
    // A wait that was asked for before would lead out of the capture.
    if (!stream->awaits.empty()) w.mark(stream);
    const auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->join(stream, {});
    stream->capture = capture;
    w.begin(capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  return call([&](World& w, World::Lock&) {
    if (!w.streams.contains(stream)) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != stream) {
      capture->invalid = true;
      return cudaErrorStreamCaptureUnmatched;
    }
    if (capture->thread != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
    w.end(capture);
    if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!capture->is_joined()) return cudaErrorStreamCaptureUnjoined;
    *graph = new CUgraph_st{stream->device, capture->nodes};
    w.graphs.insert(*graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  unsigned long long id = 0;
  return cudaStreamGetCaptureInfo(stream, status, &id);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id) {
  return call([&](World& w, World::Lock&) {
    if (!w.streams.contains(stream)) return cudaErrorInvalidResourceHandle;
    *status = !stream->capture           ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    if (stream->capture) *id = stream->capture->id;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long flags) {
  return call([&](World& w, World::Lock&) {
    if (!w.graphs.contains(graph) || flags != 0) return cudaErrorInvalidValue;
    auto* made = new CUgraphExec_st{.device = graph->device, .nodes = graph->nodes};
    for (const Node& node : made->nodes)
      while (made->queues.size() <= static_cast<std::size_t>(node.stream)) {
        made->queues.push_back(std::make_shared<Queue>());
        made->queues.back()->device = graph->device;
        if (w.settings().clocks && w.settings().clocks->graphs_in_one_queue)
          made->queues.back()->time = made->queues.front()->time;
      }
    *ready = made;
    w.ready_graphs.insert(made);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&](World& w, World::Lock&) {
    if (w.graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return call_on(stream, [&](World& w, World::Lock&) {
    if (!w.ready_graphs.contains(graph)) return cudaErrorInvalidValue;
    if (stream->capture) {  // a graph within a graph, which nobody here makes
      stream->capture->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    graph->launch(w.schedule(), stream->queue, w.after(stream));
    ++w.replays;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return call([&](World& w, World::Lock& lock) {
    if (w.ready_graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    if (graph->last) w.finish(graph->last, lock);
    delete graph;
    return cudaSuccess;
  });
}
