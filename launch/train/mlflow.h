// A run as MLflow keeps it in folders (its file store): parameters and tags are files of one value, a metric is a file that
// grows by whole lines, "milliseconds value step". It can be read while the run goes on. What a run that is resumed, or goes
// back, makes again is cut off first, so that each step is there once.
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
  // In the folder `store`, which is made where it is missing. Behind `steps_done` steps it goes on with the newest run that has
  // begun there for the same `output_dir`, where there is one. Error kStorage.
  MlflowRun(const std::string& store, const std::string& output_dir,
            const std::map<std::string, std::string>& parameters, int64_t steps_done = 0);
  // The run is FINISHED where it was completed, FAILED behind an exception, else KILLED, as when it was preempted.
  ~MlflowRun();
  MlflowRun(const MlflowRun&) = delete;
  MlflowRun& operator=(const MlflowRun&) = delete;

  // A line in the file of each. False, and errno, where one cannot be written.
  bool write(int64_t step, std::span<const Scalar> scalars);
  // What was said of later steps goes.
  void go_back_to(int64_t step);
  void complete() { is_complete_ = true; }
  void flush() const;  // from any thread
  const std::string& path() const { return folder_; }

 private:
  // As MLflow numbers them.
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

  std::string output_;  // output_dir, from the root on
  std::string folder_;  // of this run
  std::string id_, name_;
  int64_t started_ = 0;       // milliseconds
  mutable std::mutex mutex_;  // of files_, not of what is in them
  std::vector<MetricFile> files_;
  const int exceptions_;  // that were under way when it began
  bool is_complete_ = false;
};

}  // namespace recollect
