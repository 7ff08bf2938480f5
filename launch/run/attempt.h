// One start of all ranks, watched until none is left: not one of their processes outlives this object. The
// ranks are ended together: when one fails the others are told to end (SIGTERM), and killed if they do not.
#pragma once

#include <optional>

#include "launch/run/environment.h"
#include "launch/run/failure.h"
#include "launch/run/find_program.h"
#include "launch/run/guard.h"
#include "launch/run/signals.h"

namespace recollect::launcher {

// What all attempts of a run share.
struct Run {
  RunOptions options;
  Program program;
  RunIdentity identity;
  std::string log_folder;     // empty where nothing is kept
  std::vector<pid_t> spared;  // children that are not the ranks'
  Signals& signals;
  Console& console;
  const Guard& guard;
};

struct Outcome {
  int status = 0;            // for the launcher to exit with
  bool failed = false;       // another attempt may do better
  bool interrupted = false;  // and is not wanted
  std::string why = {};      // it failed: "rank 3 ended with exit code 7"
};

class Attempt {
 public:
  Attempt(Run& run, int number) : run_(run), number_(number) {}
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  Outcome carry_out();

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    pid_t pid = 0;  // 0 when it has ended
    Relay output, errors;
  };

  void start(int rank, const MeetingPoint& place);
  bool goes_on() const;
  void wait();
  void reap();
  void note_the_deaf();
  void obey(int signal);
  void tell_groups(int signal, std::chrono::milliseconds grace);
  bool is_somebody_stopped() const;
  void end_all();
  void read_the_rest();
  Outcome judge();

  Run& run_;
  const int number_;
  std::vector<Rank> ranks_;
  std::vector<RankEnd> ends_;  // as they were seen
  int interrupted_by_ = 0;     // the first signal that asked for the end
  bool asked_ = false;         // the ranks were told to end
  bool preempted_ = false;     // SIGUSR1 came to the launcher, and so it is the run's
  bool int_came_ = false;      // SIGINT, once
  std::optional<Clock::time_point> tell_at_, kill_at_, last_words_until_;
};

}  // namespace recollect::launcher
