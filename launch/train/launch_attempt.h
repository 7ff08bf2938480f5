// Tells whether this process is a later attempt of a run. `recollect run` restarts failed ranks, and Slurm a
// requeued job. Files of an earlier attempt of the same launch or job belong to this run.
#pragma once

#include <string>
#include <string_view>

namespace recollect {

class LaunchAttempt {
 public:
  // Reads the environment of the process.
  LaunchAttempt();

  bool is_later() const { return is_restarted_ || is_requeued_; }
  // A line that identifies the launch and the job, to be stored; "" without a launcher and a job.
  std::string name() const;
  // Whether this process is a later attempt of the launch or job with this name.
  bool follows(std::string_view name) const;

 private:
  std::string launch_, job_;
  bool is_restarted_, is_requeued_;
};

}  // namespace recollect
