// A run of two ranks that goes on until it is told to end, for those who look at it from outside. Its steps have many
// micro-batches: of one each it would write thousands of lines a second, which busy machines are slow to read.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "tests/launch/process.h"

namespace recollect::test {

inline bool comes_true(const std::function<bool()>& what,
                       std::chrono::seconds within = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  while (!what()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class RunningRun {
 public:
  RunningRun()
      : process_(std::make_unique<Process>(
            Words{recollect_binary(), "train", "c.yaml", "training.max_steps=100000",
                  "training.global_batch_size=128", "parallelism.data_parallel_size=2",
                  "parallelism.ranks_per_process=2"},
            place_.folder().path())) {}

  const Workplace& place() const { return place_; }
  bool has(const std::string& name) const { return std::filesystem::exists(place_.file(name)); }
  bool trains() const {
    std::error_code none;  // -1 where there is no file yet
    return comes_true([&] {
      return has("out/memory.rank1.json") &&
             static_cast<int64_t>(std::filesystem::file_size(place_.file("out/metrics.jsonl"), none)) > 0;
    });
  }
  void end() {
    ::kill(process_->pid(), SIGTERM);
    process_->wait(std::chrono::seconds(60));
  }

 private:
  Workplace place_;
  std::unique_ptr<Process> process_;
};

}  // namespace recollect::test
