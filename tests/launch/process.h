// Runs the real program, alone or under mpirun, in a folder of the test's own. Nothing can hang a test: what
// is not done in its time is killed, with everything it started. A sanitizer's report in the output of any
// process fails the test.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/io/json.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test {

inline constexpr int kNotInTime = -1;

// What became of a process: its exit status, 128 + signal where one ended it, or kNotInTime.
struct Finished {
  int status = kNotInTime;
  std::string out, err;
};

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

class Process {
 public:
  // Starts `command` in `folder`, with `environment` on top of this process's, but for what launchers of
  // ranks leave there.
  Process(const Words& command, const std::string& folder, const Environment& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  Finished wait(std::chrono::seconds bound);

 private:
  std::string folder_;
  pid_t pid_ = 0;
  bool reaped_ = false;
};

// Processes of that name among the descendants of `ancestor`, by now.
std::vector<pid_t> descendants(pid_t ancestor, const std::string& name);
// Whether it runs; a zombie does not.
bool is_running(pid_t pid);
// By SIGSTOP.
bool is_stopped(pid_t pid);

// A folder with a small configuration, c.yaml, that trains two micro-models' steps in no time.
class Workplace {
 public:
  static constexpr std::chrono::seconds kBound{
      240};  // generous: sanitizers, and machines that do other things

  Workplace();
  const TemporaryFolder& folder() const { return folder_; }
  std::string file(const std::string& name) const { return folder_.file(name); }

  // `recollect WORDS`, and `recollect train c.yaml WORDS`.
  Finished recollect(const Words& words, const Environment& environment = {}) const;
  Finished train(const Words& words, const Environment& environment = {}) const;
  // `recollect train c.yaml WORDS` as that many ranks of mpirun.
  Finished train_under_mpirun(int ranks, const Words& words, const Environment& environment = {}) const;

  // One object per line of metrics.jsonl in the output folder.
  std::vector<nlohmann::json> metrics(const std::string& output = "out") const;

 private:
  TemporaryFolder folder_;
};

// How often the part is in the text.
int times_in(const std::string& text, const std::string& part);

std::string recollect_binary();
// The words that start mpirun, as root and with more ranks than cores too.
Words mpirun();
Words operator+(Words left, const Words& right);

}  // namespace recollect::test
