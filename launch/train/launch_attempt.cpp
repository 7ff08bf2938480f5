#include "launch/train/launch_attempt.h"

#include <algorithm>
#include <cstdlib>

namespace recollect {

namespace {

constexpr std::string_view kJob = " of job ";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

LaunchAttempt::LaunchAttempt()
    : launch_(variable("RECOLLECT_LAUNCH")),
      job_(variable("SLURM_JOB_ID")),
      is_restarted_(std::atoi(variable("TORCHELASTIC_RESTART_COUNT").c_str()) > 0),
      is_requeued_(std::atoi(variable("SLURM_RESTART_COUNT").c_str()) > 0) {}

std::string LaunchAttempt::name() const { return launch_ + (job_.empty() ? "" : std::string(kJob) + job_); }

bool LaunchAttempt::follows(std::string_view name) const {
  const std::size_t end = std::min(name.find(kJob), name.size());
  const std::string_view launch = name.substr(0, end),
                         job = end == name.size() ? "" : name.substr(end + kJob.size());
  return (is_restarted_ && !launch_.empty() && launch == launch_) ||
         (is_requeued_ && !job_.empty() && job == job_);
}

}  // namespace recollect
