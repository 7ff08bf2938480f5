// The numbers of a run as it goes on, for those who plot them: in each form that logging.report_to names,
// under the same keys. What is written can be read at once.
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
  int digits = 0;              // in metrics.jsonl; 0: an integer
  std::string_view text = {};  // of kText: in metrics.jsonl alone
  static constexpr int kYesOrNo = -1, kText = -2;
};

class MetricsLog {
 public:
  // `config` must outlive it. Replaces metrics.jsonl, or, where a run is resumed, goes on behind its lines of these steps;
  // event files add up, and TensorBoard is told from which step on the earlier ones no longer count; MLflow's run goes on.
  // Starts the hook.
  // Error kStorage.
  explicit MetricsLog(const Config& config, int64_t steps_done = 0);
  // A run goes on behind this step again: the forms begin as above, and the hook is told of the steps once more.
  void go_back_to(int64_t step) { open(step); }
  // The run has done all that it was to do.
  void complete();
  // Complains once where that fails, for training is worth more than its log.
  void write(int64_t step, std::span<const Metric> metrics);
  // Until what was written is on the disk. From any thread.
  void flush() const;

 private:
  void open(int64_t steps_done);
  void complain(const std::string& path);

  const Config& config_;
  std::unique_ptr<GrowingFile> json_;  // null where not asked for; likewise below
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<MlflowRun> mlflow_;
  std::unique_ptr<MetricsHook> hook_;
  std::vector<Scalar> scalars_;  // keeps its memory
  bool complained_ = false;
};

}  // namespace recollect
