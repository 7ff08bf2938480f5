// A command of the user's that gets the lines of metrics.jsonl on its standard input as they are written (logging.hook).
// Training never waits for it and never ends because of it: a line for which there is no room is left out whole, and
// what goes wrong is said once. Of the command's own output the first MiB goes to a file. When the run ends it is given
// a few seconds to read to the end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

#include "engine/io/descriptor.h"
#include "launch/train/hook_log.h"

namespace recollect {

class MetricsHook {
 public:
  // Starts `sh -c COMMAND`. `output`: the file of what it says; `goes_on`: behind what an earlier attempt has said there.
  MetricsHook(const std::string& command, const std::string& output, bool goes_on);
  ~MetricsHook();
  MetricsHook(const MetricsHook&) = delete;
  MetricsHook& operator=(const MetricsHook&) = delete;

  // Whole lines.
  void send(std::string_view lines);

 private:
  using Clock = std::chrono::steady_clock;

  void start(const std::string& command);
  // Until it has ended, of itself or told to.
  void end();
  // Complains of what went wrong with what it says.
  void look_at_log();
  // As much of what waits as the command takes by now. False where it takes nothing any more.
  bool write_waiting();
  // Once, of all that may go wrong.
  void complain(const std::string& what);
  // The command takes no more: says so, and how it has ended where it has.
  void give_up();
  // Waits for its end; false where it has not come by then.
  bool ends_before(Clock::time_point deadline);
  std::string how_it_ended() const;

  pid_t child_ = 0;  // 0: there is none any more
  int status_ = 0;   // of one that has ended
  Descriptor input_;
  HookLog log_;
  std::string waiting_;  // keeps its memory
  std::size_t written_ = 0;
  bool complained_ = false;
  const int exceptions_;  // that were under way when it began
};

}  // namespace recollect
