// Runs a command of the user that receives the lines of metrics.jsonl on its standard input as they are
// written (logging.hook). Training never waits for it and never ends because of it: a line without room is
// dropped as a whole, and problems are reported once. The first MiB of the command's output goes to a file.
// At the end of the run it has a few seconds to read the rest.
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
  // Starts `sh -c COMMAND`. `output` is the file for its output; with `goes_on` it is appended to that of an
  // earlier attempt.
  MetricsHook(const std::string& command, const std::string& output, bool goes_on);
  ~MetricsHook();
  MetricsHook(const MetricsHook&) = delete;
  MetricsHook& operator=(const MetricsHook&) = delete;

  // `lines` are complete lines.
  void send(std::string_view lines);

 private:
  using Clock = std::chrono::steady_clock;

  void start(const std::string& command);
  // Waits until the command has ended by itself or by a signal.
  void end();
  // Warns about problems with its output.
  void look_at_log();
  // Writes waiting lines as far as the command reads them. Returns false if it does not read any more.
  bool write_waiting();
  // Warns only once.
  void complain(const std::string& what);
  // The command does not read any more: reports this, and how it ended if it did.
  void give_up();
  // Waits for its end; returns false if it has not ended by the deadline.
  bool ends_before(Clock::time_point deadline);
  std::string how_it_ended() const;

  pid_t child_ = 0;  // 0: it has ended
  int status_ = 0;   // exit status after its end
  Descriptor input_;
  HookLog log_;
  std::string waiting_;  // keeps its memory
  std::size_t written_ = 0;
  bool complained_ = false;
  const int exceptions_;  // uncaught ones at the construction
};

}  // namespace recollect
