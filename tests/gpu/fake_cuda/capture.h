// A capture under way, and the graph that it becomes: the jobs that its streams were given, with what each of them
// comes after. The rules are CUDA's; where those leave room, the stricter reading.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/gpu/fake_cuda/cuda_runtime.h"
#include "tests/gpu/fake_cuda/schedule.h"

namespace recollect::fake_cuda {

// What the handles of events stand for. Those that graphs record outlive their handles.
struct EventState {
  int device = 0;
  bool timed = true;
  WorkPointer recorded = {};  // the latest time; null where it was never recorded, or in a capture
  // The capture that recorded it last, and the nodes that it stands for there.
  std::shared_ptr<struct Capture> capture = {};
  std::vector<int> nodes = {};
};

struct Node {
  int stream = 0;                       // of the graph's
  std::vector<int> after;               // nodes
  std::shared_ptr<Job> job;             // null: none
  std::shared_ptr<EventState> records;  // an external event; null: none
  uint64_t cost = 0;
};

struct Capture {
  unsigned long long id = 0;  // no other has it
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false, over = false;
  std::vector<Node> nodes;
  std::map<cudaStream_t, int> streams;              // the graph's number of each
  std::map<cudaStream_t, std::vector<int>> latest;  // the nodes that each stream's next one comes after

  // A node at the end of what `stream` holds.
  void add(cudaStream_t stream, std::shared_ptr<Job> job, std::shared_ptr<EventState> records,
           uint64_t cost = 0);
  // `stream` comes after these nodes too; it takes part from now on.
  void join(cudaStream_t stream, const std::vector<int>& nodes);
  // Whether everything comes before the end of the stream that the capture began in.
  bool is_joined() const;
};

}  // namespace recollect::fake_cuda

struct CUgraph_st {
  int device = 0;
  std::vector<recollect::fake_cuda::Node> nodes;
};

struct CUgraphExec_st {
  int device = 0;
  std::vector<recollect::fake_cuda::Node> nodes;
  std::vector<recollect::fake_cuda::QueuePointer> queues = {};  // of the graph's streams
  recollect::fake_cuda::WorkPointer last = {};                  // the end of the latest launch

  // Puts every node on its queue. Returns the end of it all, which is on `queue`, behind `after`.
  recollect::fake_cuda::WorkPointer launch(recollect::fake_cuda::Schedule& schedule,
                                           const recollect::fake_cuda::QueuePointer& queue,
                                           std::vector<recollect::fake_cuda::WorkPointer> after);
};
