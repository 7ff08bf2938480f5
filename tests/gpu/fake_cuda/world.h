// The fake CUDA of a process: its devices, and everything that was asked of them. Ranks are threads of it. Work waits
// until somebody waits for it (schedule.h), which runs it on his thread, one piece at a time, so a run depends on
// nothing but its seed where there is one rank. Memory: memory.h; captures: capture.h.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/fake_cuda/capture.h"
#include "tests/gpu/fake_cuda/memory.h"
#include "tests/gpu/fake_cuda/schedule.h"

// The fake NCCL (tests/comm/fake_nccl) puts its collectives on it.
struct CUstream_st : recollect::test::StreamAbi {
  CUstream_st(int of_device, void (*enqueue)(StreamAbi*, std::unique_ptr<recollect::test::StreamJob>));

  int device;
  recollect::fake_cuda::QueuePointer queue;
  // What its next work comes after, of other streams.
  std::vector<recollect::fake_cuda::WorkPointer> awaits = {};
  std::shared_ptr<recollect::fake_cuda::Capture> capture = {};
};

struct CUevent_st {
  std::shared_ptr<recollect::fake_cuda::EventState> state;
};

namespace recollect::fake_cuda {

// How long work takes on a fake device, whatever it takes here.
struct Clocks {
  uint64_t kernel = 2000;            // nanoseconds
  double copied = 0;                 // bytes a nanosecond, between host and device; 0: copies take nothing
  std::size_t small = 256;           // copies of so few bytes take nothing
  bool graphs_in_one_queue = false;  // nodes of a graph one after the other, though none waits for the other
};

struct Settings {
  int devices = 1;
  std::size_t memory = std::size_t{1} << 30;  // of a device
  std::size_t pinned = std::size_t{1} << 30;  // that the host may pin
  RunOrder order = RunOrder::kLate;
  uint32_t seed = 0;
  bool fused_attention = false;  // as with cuDNN; otherwise attention is the backend's own in every dtype
  std::optional<Clocks> clocks = {};
  std::string warning = {};  // of each rank's libraries; empty: none
};

class World {
 public:
  explicit World(const Settings& settings)
      : settings_(settings),
        schedule_(settings.order, settings.seed, settings.clocks.has_value()),
        dead_(static_cast<std::size_t>(settings.devices)) {}

  const Settings& settings() const { return settings_; }
  Memory& memory() { return memory_; }
  Schedule& schedule() { return schedule_; }

  // What there is now, of each kind of handle.
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> ready_graphs;
  std::size_t pinned = 0;
  int64_t memory_handles = 0;         // of the driver
  int64_t launches = 0, replays = 0;  // of kernels, outside of graphs; of graphs
  int64_t learned = 0;                // ranks that took another one's choices

  using Lock = std::unique_lock<std::mutex>;
  Lock lock() { return Lock(mutex_); }

  // A job at the end of a stream, or of the capture that it takes part in.
  void put(cudaStream_t stream, std::unique_ptr<Job> job, uint64_t cost = 0);
  uint64_t kernel_cost() const { return settings_.clocks ? settings_.clocks->kernel : 0; }
  uint64_t copy_cost(std::size_t bytes) const {
    const bool takes = settings_.clocks && settings_.clocks->copied > 0 && bytes > settings_.clocks->small;
    return takes ? static_cast<uint64_t>(static_cast<double>(bytes) / settings_.clocks->copied) : 0;
  }
  // The end of all that is on a stream so far.
  WorkPointer mark(cudaStream_t stream);
  // What the next work of a stream waits for; it is told once.
  std::vector<WorkPointer> after(cudaStream_t stream);
  // Runs until it is done. `lock` is given up while others must act.
  void finish(const WorkPointer& work, Lock& lock);
  void finish_all(int device, Lock& lock);

  // A capture of the calling thread that forbids what may wait for a device. It is lost.
  bool capture_forbids();
  void begin(const std::shared_ptr<Capture>& capture) {
    capture->id = ++begun_;
    captures_.push_back(capture);
  }
  void end(const std::shared_ptr<Capture>& capture);

  // What a kernel did wrong; the device does nothing more, and says so for ever.
  const std::string& death(int device) const { return dead_[static_cast<std::size_t>(device)]; }
  std::string what_is_left() const;  // empty where everything was given back

 private:
  const Settings settings_;
  unsigned long long begun_ = 0;  // captures
  std::mutex mutex_;
  std::condition_variable wake_;
  Memory memory_;
  Schedule schedule_;
  std::vector<std::shared_ptr<Capture>> captures_;  // under way
  std::vector<std::string> dead_;                   // why, by device
};

// That of the process. It is made when first asked for.
World& world();
// A new one, with everything of the old forgotten. No other thread may be in it.
World& restart(const Settings& settings);

}  // namespace recollect::fake_cuda
