// Work in a process of its own, so that nothing it does (a library that crashes when it is loaded, a program
// that never answers) harms this one. Must be called while the process has one thread.
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

// Runs `body`, whose result is the exit status and whose standard output is read; it is ended, with what it
// started, when its time is over.
Ended run_apart(const std::function<int()>& body, std::chrono::milliseconds bound);

// The same for a program, without what launchers of ranks leave in the environment. Status 127 where there is
// no such program.
Ended run_program(const std::vector<std::string>& words, const std::string& folder,
                  std::chrono::milliseconds bound);

// The first line of `text`, without blanks around it.
std::string first_line(const std::string& text);
// The line that says most: ours of an error, or the first with a letter in it.
std::string telling_line(const std::string& text);

}  // namespace recollect::doctor
