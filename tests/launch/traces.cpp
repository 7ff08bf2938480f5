#include "tests/launch/traces.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace recollect::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr const char* kMark = "RECOLLECT_TEST_MARK";

std::string new_mark() {
  static std::atomic<int> marks = 0;
  const auto now = steady_clock::now().time_since_epoch().count();
  return std::to_string(::getpid()) + "-" + std::to_string(now) + "-" + std::to_string(++marks);
}

constexpr const char* kSharedMemory = "/dev/shm";

// The names of the shared memory in which ranks meet.
std::set<std::string> segments() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kSharedMemory, none))
    if (const std::string name = entry.path().filename(); name.starts_with("recollect-")) names.insert(name);
  return names;
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

Traces::Traces() : value_(new_mark()), mpi_segments_(kSharedMemory), segments_before_(segments()) {}

Environment Traces::environment() const {
  return {{kMark, value_}, {"OMPI_MCA_btl_vader_backing_directory", mpi_segments_.path()}};
}

std::vector<pid_t> Traces::processes() const {
  std::vector<pid_t> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none))
    if (const pid_t pid = std::atoi(entry.path().filename().c_str());
        pid > 0 && variable_of(pid, kMark) == value_)
      found.push_back(pid);
  return found;
}

void Traces::expect_none(bool at_once) const {
  const auto all_gone = [&] { return processes().empty(); };
  EXPECT_TRUE(at_once ? all_gone() : wait_until(all_gone)) << "processes are left";
  EXPECT_TRUE(wait_until([&] { return mpi_segments_.count() == 0; })) << "Open MPI's shared memory is left";
  // Those of other runs on this machine go away too, as soon as their ranks have met.
  for (const std::string& segment : segments()) {
    if (segments_before_.contains(segment)) continue;
    EXPECT_TRUE(wait_until([&] { return !segments().contains(segment); })) << segment << " is left";
  }
}

}  // namespace recollect::test
