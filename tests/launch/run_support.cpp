#include "tests/launch/run_support.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

namespace recollect::test {
namespace {

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

Launch::Launch(const Words& words, const Environment& environment, const Words& command) {
  std::filesystem::create_directory(file("tmp"));
  Environment all = environment;
  all.merge(traces_.environment());
  all.emplace("TMPDIR", file("tmp"));
  // A shell starts its background jobs, and this test perhaps, with SIGINT ignored, which would be inherited.
  ::signal(SIGINT, SIG_DFL);
  process_ = std::make_unique<Process>(command + Words{recollect_binary(), "run"} + words,
                                       place_.folder().path(), all);
}

std::vector<pid_t> Launch::ranks() const {
  std::vector<pid_t> found = traces_.processes();
  std::erase_if(found, [&](pid_t p) { return p == pid() || name_of(p) == "recollect-guard"; });
  return found;
}

void Launch::signal(int signal) {
  killed_ = killed_ || signal == SIGKILL;
  ASSERT_EQ(::kill(pid(), signal), 0);
}

Finished Launch::finish(std::chrono::seconds bound) {
  Finished finished = process_->wait(bound);
  traces_.expect_none(!killed_);  // where it was killed itself, others clean up behind it
  for (const auto& entry : std::filesystem::directory_iterator(file("tmp")))
    ADD_FAILURE() << entry.path() << " is left";
  return finished;
}

Words shell(const std::string& script) { return {"sh", "-c", script}; }

}  // namespace recollect::test
