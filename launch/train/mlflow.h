// Writes a run in the format of MLflow's file store: parameters and tags are files with one value, and a
// metric is a file of lines "milliseconds value step". It can be read during the run. Before a resumed run or
// a rollback repeats steps, their lines are removed, so that each step appears once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/files.h"
#include "launch/train/tensorboard.h"

namespace recollect {

class MlflowRun {
 public:
  // Writes to the folder `store`, which is created if necessary. After `steps_done` steps it continues the
  // newest run in it with the same `output_dir`, if there is one. Throws kStorage.
  MlflowRun(const std::string& store, const std::string& output_dir,
            const std::map<std::string, std::string>& parameters, int64_t steps_done = 0);
  // The status becomes FINISHED if the run was completed, FAILED after an exception, otherwise KILLED, for
  // example after a preemption.
  ~MlflowRun();
  MlflowRun(const MlflowRun&) = delete;
  MlflowRun& operator=(const MlflowRun&) = delete;

  // Adds a line to the file of each. Returns false and sets errno if one cannot be written.
  bool write(int64_t step, std::span<const Scalar> scalars);
  // Removes the metrics of later steps.
  void go_back_to(int64_t step);
  void complete() { is_complete_ = true; }
  void flush() const;  // any thread may call it
  const std::string& path() const { return folder_; }

 private:
  // MLflow's numbers.
  enum class Status { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };
  struct MetricFile {
    std::string name;
    std::unique_ptr<GrowingFile> file;
  };

  bool find_earlier(const std::string& experiment);
  void write_tags();
  void write_meta(Status status) const;
  GrowingFile& file_of(std::string_view name);
  const GrowingFile* file_at(std::size_t index) const;

  std::string output_;  // absolute output_dir
  std::string folder_;  // of this run
  std::string id_, name_;
  int64_t started_ = 0;       // milliseconds
  mutable std::mutex mutex_;  // protects files_, not their contents
  std::vector<MetricFile> files_;
  const int exceptions_;  // uncaught ones at the construction
  bool is_complete_ = false;
};

}  // namespace recollect
