#include "tests/gpu/fake_cuda/world.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/core/error.h"

namespace recollect::fake_cuda {

namespace {

constexpr std::chrono::microseconds kPatience(200);  // what others must do may be seen in no other way

std::unique_ptr<World>& the_world() {
  static std::unique_ptr<World> world = std::make_unique<World>(Settings{});
  return world;
}

// While it lives, the calling thread is the devices.
class Working {
 public:
  explicit Working(Memory& memory) : memory_(memory) {
    memory_.open();
    set_device_work(true);
  }
  ~Working() {
    set_device_work(false);
    memory_.close();
  }
  Working(const Working&) = delete;

 private:
  Memory& memory_;
};

}  // namespace

World& world() { return *the_world(); }

World& restart(const Settings& settings) {
  the_world() = std::make_unique<World>(settings);
  return world();
}

std::vector<WorkPointer> World::after(cudaStream_t stream) { return std::exchange(stream->awaits, {}); }

void World::put(cudaStream_t stream, std::unique_ptr<Job> job, uint64_t cost) {
  if (stream->capture) {
    stream->capture->add(stream, std::move(job), nullptr, cost);
    return;
  }
  schedule_.add(stream->queue, after(stream), job.release(), true, cost);
  wake_.notify_all();
}

WorkPointer World::mark(cudaStream_t stream) { return schedule_.add(stream->queue, after(stream), nullptr); }

void World::finish(const WorkPointer& work, Lock& lock) {
  while (!work->done) {
    bool moved = false;
    try {
      const Working devices(memory_);
      while (!work->done && schedule_.step(work)) moved = true;
    } catch (const Error& error) {
      dead_[static_cast<std::size_t>(schedule_.failed())] = error.what();
      schedule_.stop(schedule_.failed());
      moved = true;
    }
    if (!work->done && !moved) wake_.wait_for(lock, kPatience);
    if (moved) wake_.notify_all();
  }
  thread_hears(work.get());
}

void World::finish_all(int device, Lock& lock) {
  for (std::vector<WorkPointer> last = schedule_.last(device); !last.empty(); last = schedule_.last(device))
    for (const WorkPointer& work : last)
      if (!work->done) finish(work, lock);
}

bool World::capture_forbids() {
  bool forbids = false;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool here = capture->thread == std::this_thread::get_id();
    if (!here && capture->mode != cudaStreamCaptureModeGlobal) continue;
    capture->invalid = true;
    forbids = true;
  }
  return forbids;
}

void World::end(const std::shared_ptr<Capture>& capture) {
  capture->over = true;
  for (const auto& [stream, number] : capture->streams) stream->capture = nullptr;
  captures_.erase(std::find(captures_.begin(), captures_.end(), capture));
}

std::string World::what_is_left() const {
  std::string left;
  const auto say = [&](std::size_t count, const char* what) {
    if (count > 0) left += (left.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  say(streams.size(), "streams");
  say(events.size(), "events");
  say(graphs.size(), "graphs");
  say(ready_graphs.size(), "instantiated graphs");
  say(memory_.pieces(), "pieces of memory");
  say(static_cast<std::size_t>(memory_handles), "handles of memory");
  say(schedule_.last(-1).size(), "queues with work");
  if (!memory_.damage().empty()) left += (left.empty() ? "" : ", ") + memory_.damage();
  return left;
}

}  // namespace recollect::fake_cuda
