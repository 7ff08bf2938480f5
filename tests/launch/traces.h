// What a test starts is marked by a variable of its environment, which everything that it starts inherits: so
// it can be found again, and held to leave no process and no shared memory behind. Open MPI's has a folder of the
// test's own: other tests, which run beside it, may kill what cannot clean up any more. With its processes gone,
// so are the ports that they had.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/temporary_folder.h"
#include "tests/launch/process.h"

namespace recollect::test {

// Until it holds, or a generous bound has passed: then false.
bool wait_until(const std::function<bool()>& condition);

// The value of a variable in the environment that a process was started with.
std::string variable_of(pid_t pid, const std::string& name);

class Traces {
 public:
  Traces();

  // For the environment of what is started.
  Environment environment() const;
  // Those that are marked, by now.
  std::vector<pid_t> processes() const;
  // `at_once`: what has ended says that all has; otherwise others may still clean up behind it.
  void expect_none(bool at_once = false) const;

 private:
  std::string value_;
  TemporaryFolder mpi_segments_;
  std::set<std::string> segments_before_;  // of other runs
};

}  // namespace recollect::test
