// `recollect run` as a test sees it: started in a folder of its own, and held to leave nothing behind,
// whatever became of it: no process that it or its ranks started, no temporary file, no shared memory.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/launch/process.h"

namespace recollect::test {

// Until it holds, or a generous bound has passed: then false.
bool wait_until(const std::function<bool()>& condition);

// Processes that carry this variable in their environment, by now.
std::vector<pid_t> processes_with(const std::string& variable);
// The value of a variable in the environment that a process was started with.
std::string variable_of(pid_t pid, const std::string& name);

class Launch {
 public:
  // `recollect run WORDS`; or `COMMAND recollect run WORDS`, which must become the launcher or wait for it.
  explicit Launch(const Words& words, const Environment& environment = {}, const Words& command = {});

  pid_t pid() const { return process_->pid(); }
  std::string file(const std::string& name) const { return place_.file(name); }
  const Workplace& place() const { return place_; }
  // What it has written so far.
  std::string out() const { return testing::TemporaryFolder::read(file("stdout.txt")); }
  std::string err() const { return testing::TemporaryFolder::read(file("stderr.txt")); }
  // What the run has started and still runs; the launcher and its guard are none of it.
  std::vector<pid_t> ranks() const;

  void signal(int signal);
  // Waits for the end, which must come in time, and looks for what was left.
  Finished finish(std::chrono::seconds bound = std::chrono::seconds(60));

 private:
  Workplace place_;
  std::string mark_;
  std::set<std::string> segments_before_;  // of other runs
  bool killed_ = false;
  std::unique_ptr<Process> process_;
};

// `sh -c SCRIPT`: $RANK tells the ranks apart.
Words shell(const std::string& script);

}  // namespace recollect::test
