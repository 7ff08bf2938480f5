// `recollect run` as a test sees it: started in a folder of its own, and held to leave nothing behind,
// whatever became of it: no process that it or its ranks started, no temporary file, no shared memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/launch/process.h"
#include "tests/launch/traces.h"

namespace recollect::test {

class Launch {
 public:
  // `recollect run WORDS`; or `COMMAND recollect run WORDS`, which must become the launcher or wait for it.
  explicit Launch(const Words& words, const Environment& environment = {}, const Words& command = {});

  pid_t pid() const { return process_->pid(); }
  std::string file(const std::string& name) const { return place_.file(name); }
  const Workplace& place() const { return place_; }
  // What it has written so far.
  std::string out() const { return test::TemporaryFolder::read(file("stdout.txt")); }
  std::string err() const { return test::TemporaryFolder::read(file("stderr.txt")); }
  // What the run has started and still runs; the launcher and its guard are none of it.
  std::vector<pid_t> ranks() const;

  void signal(int signal);
  // By somebody else.
  void expect_killed() { killed_ = true; }
  // Waits for the end, which must come in time, and looks for what was left.
  Finished finish(std::chrono::seconds bound = std::chrono::seconds(60));

 private:
  Workplace place_;
  Traces traces_;
  bool killed_ = false;
  std::unique_ptr<Process> process_;
};

// `sh -c SCRIPT`: $RANK tells the ranks apart.
Words shell(const std::string& script);

}  // namespace recollect::test
