// Writes the metrics of a run during the run, in each format of logging.report_to, under the same keys.
// Written metrics can be read at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/files.h"
#include "launch/config/config.h"
#include "launch/train/metrics_hook.h"
#include "launch/train/mlflow.h"
#include "launch/train/tensorboard.h"

namespace recollect {

struct Metric {
  std::string_view key;
  double value = 0;
  int digits = 0;              // in metrics.jsonl; 0 for an integer
  std::string_view text = {};  // for kText, only in metrics.jsonl
  static constexpr int kYesOrNo = -1, kText = -2;
};

class MetricsLog {
 public:
  // `config` must outlive it. Replaces metrics.jsonl, or in a resumed run continues after the lines of
  // `steps_done`. A new event file tells TensorBoard from which step on events of earlier files no longer
  // count. MLflow's run is continued. Starts the hook. Throws kStorage.
  explicit MetricsLog(const Config& config, int64_t steps_done = 0);
  // The run continues after this step again: the files are continued as above, and the hook receives the
  // steps a second time.
  void go_back_to(int64_t step) { open(step); }
  // The run has finished all its steps.
  void complete();
  // Warns once if writing fails, because training matters more than its log.
  void write(int64_t step, std::span<const Metric> metrics);
  // Waits until everything written is on the disk. Any thread may call it.
  void flush() const;

 private:
  void open(int64_t steps_done);
  void complain(const std::string& path);

  const Config& config_;
  std::unique_ptr<GrowingFile> json_;  // null if not requested, as below
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<MlflowRun> mlflow_;
  std::unique_ptr<MetricsHook> hook_;
  std::vector<Scalar> scalars_;  // keeps its memory
  bool complained_ = false;
};

}  // namespace recollect
