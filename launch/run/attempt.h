// One start of all ranks of `recollect run`, from start to end. No process of the ranks outlives this object.
// The ranks end together: if one fails, the others get SIGTERM, and SIGKILL if they do not end.
#pragma once

#include <optional>

#include "launch/run/environment.h"
#include "launch/run/failure.h"
#include "launch/run/find_program.h"
#include "launch/run/guard.h"
#include "launch/run/signals.h"

namespace recollect::launcher {

// The data that all attempts of a run share.
struct Run {
  RunOptions options;
  Program program;
  RunIdentity identity;
  std::string log_folder;     // empty if no files are kept
  std::vector<pid_t> spared;  // children that are not ranks
  Signals& signals;
  Console& console;
  const Guard& guard;
};

struct Outcome {
  int status = 0;            // the launcher's exit code
  bool failed = false;       // another attempt may succeed
  bool interrupted = false;  // the user does not want another attempt
  std::string why = {};      // reason of the failure: "rank 3 ended with exit code 7"
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
  std::vector<RankEnd> ends_;  // in the order in which they were seen
  int interrupted_by_ = 0;     // the first signal that asked for the end
  bool asked_ = false;         // the ranks have been told to end
  bool preempted_ = false;     // the launcher got SIGUSR1: the whole run is preempted
  bool int_came_ = false;      // the first SIGINT has come
  std::optional<Clock::time_point> tell_at_, kill_at_, last_words_until_;
};

}  // namespace recollect::launcher
