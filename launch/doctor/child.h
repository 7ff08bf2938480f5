// Runs work in a separate process, so that it cannot harm this one (for example a library that crashes at its
// load, or a program that never answers). Call it while this process has one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace recollect::doctor {

struct Ended {
  bool in_time = false;
  int status = -1;     // the exit status, or 128 + the signal
  std::string output;  // standard output and standard error, at most 64 KiB
  bool good() const { return in_time && status == 0; }
  // "exit status 3", "signal 11", "no answer in time".
  std::string how() const;
};

// Runs `body` and reads its output; its result is the exit status. If its time is over, it is ended together
// with the processes that it started.
Ended run_apart(const std::function<int()>& body, std::chrono::milliseconds bound);

// The same for a program, without the environment variables of launchers. The status is 127 if there is no
// such program.
Ended run_program(const std::vector<std::string>& words, const std::string& folder,
                  std::chrono::milliseconds bound);

// The first line of `text` without surrounding blanks.
std::string first_line(const std::string& text);
// The most informative line: an error message of recollect, or else the first line with a letter in it.
std::string telling_line(const std::string& text);

}  // namespace recollect::doctor
