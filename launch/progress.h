// What rank 0 says while it trains: a bar on a terminal, plain lines elsewhere, and in metrics.jsonl one JSON
// object per step, which has a "loss", and one per evaluation, which has an "eval_loss".
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "launch/session.h"

namespace recollect {

class Progress {
 public:
  // `every`: steps between lines.
  Progress(const std::string& metrics_path, int64_t total_steps, int64_t every, ProgressStyle style,
           uint64_t memory_bytes);
  ~Progress();
  void report(const StepResult& result);
  void report(const EvaluationResult& result, int64_t steps_done);
  // Ends the bar, so that what follows starts on a fresh line.
  void finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write(const std::string& line);
  void draw_bar(const StepResult& result);

  std::unique_ptr<std::FILE, Close> metrics_;
  int64_t total_steps_, every_;
  bool bar_, drawn_ = false, complained_ = false;
  uint64_t memory_bytes_;
};

}  // namespace recollect
