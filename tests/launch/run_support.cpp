#include "tests/launch/run_support.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

namespace recollect::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr const char* kMark = "RECOLLECT_TEST_MARK";

std::string new_mark() {
  static std::atomic<int> launches = 0;
  const auto now = steady_clock::now().time_since_epoch().count();
  return std::to_string(::getpid()) + "-" + std::to_string(now) + "-" + std::to_string(++launches);
}

// The names of the shared memory in which ranks meet.
std::set<std::string> segments() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none))
    if (entry.path().filename().string().starts_with("recollect-")) names.insert(entry.path().filename());
  return names;
}

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + 120s;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

std::string variable_of(pid_t pid, const std::string& name) {
  std::ifstream all("/proc/" + std::to_string(pid) + "/environ");
  for (std::string entry; std::getline(all, entry, '\0');)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return "";
}

std::vector<pid_t> processes_with(const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('=')), value = variable.substr(name.size() + 1);
  std::vector<pid_t> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none))
    if (const pid_t pid = std::atoi(entry.path().filename().c_str());
        pid > 0 && variable_of(pid, name) == value)
      found.push_back(pid);
  return found;
}

Launch::Launch(const Words& words, const Environment& environment, const Words& command)
    : mark_(new_mark()), segments_before_(segments()) {
  std::filesystem::create_directory(file("tmp"));
  Environment all = environment;
  all.emplace(kMark, mark_);
  all.emplace("TMPDIR", file("tmp"));
  // A shell starts its background jobs, and this test perhaps, with SIGINT ignored, which would be inherited.
  ::signal(SIGINT, SIG_DFL);
  process_ = std::make_unique<Process>(command + Words{recollect_binary(), "run"} + words,
                                       place_.folder().path(), all);
}

std::vector<pid_t> Launch::ranks() const {
  std::vector<pid_t> found = processes_with(std::string(kMark) + "=" + mark_);
  std::erase_if(found, [&](pid_t p) { return p == pid() || name_of(p) == "recollect-guard"; });
  return found;
}

void Launch::signal(int signal) {
  killed_ = killed_ || signal == SIGKILL;
  ASSERT_EQ(::kill(pid(), signal), 0);
}

Finished Launch::finish(std::chrono::seconds bound) {
  Finished finished = process_->wait(bound);
  const std::string variable = std::string(kMark) + "=" + mark_;
  const auto all_gone = [&] { return processes_with(variable).empty(); };
  // Where it was killed itself, others clean up behind it.
  EXPECT_TRUE(killed_ ? wait_until(all_gone) : all_gone()) << "processes are left";
  for (const auto& entry : std::filesystem::directory_iterator(file("tmp")))
    ADD_FAILURE() << entry.path() << " is left";
  // Those of other runs on this machine go away too, as soon as their ranks have met.
  for (const std::string& segment : segments()) {
    if (segments_before_.contains(segment)) continue;
    EXPECT_TRUE(wait_until([&] { return !segments().contains(segment); })) << segment << " is left";
  }
  return finished;
}

Words shell(const std::string& script) { return {"sh", "-c", script}; }

}  // namespace recollect::test
