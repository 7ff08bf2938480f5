// Which start of a run this is. `recollect run` starts ranks again that have failed, and Slurm a job that was requeued; what
// an earlier attempt of the same launch, or of the same job, has left is this run's own.
#pragma once

#include <string>
#include <string_view>

namespace recollect {

class LaunchAttempt {
 public:
  // By the environment of the process.
  LaunchAttempt();

  bool is_later() const { return is_restarted_ || is_requeued_; }
  // Of the launch and the job, one line, to be written down; "" where there is neither.
  std::string name() const;
  // Whether this process is a later attempt of the one of that name.
  bool follows(std::string_view name) const;

 private:
  std::string launch_, job_;
  bool is_restarted_, is_requeued_;
};

}  // namespace recollect
