#include "launch/run/processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/io/descriptor.h"
#include "engine/io/open_files.h"

namespace recollect::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kTimeToDie = 10s;  // enough even for processes that are busy with a device

std::vector<char*> pointers(const Words& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void fail(ExitCode code, const std::string& what, int reason) {
  throw Error(code, what + ": " + std::generic_category().message(reason), open_files_hint(reason));
}

struct Start {
  pid_t launcher;
  const char* path;
  char** words;
  char** environment;
  int output, errors, report, guard;
  const sigset_t* blocked;
};

// Runs in the child. It uses only functions that are allowed between fork and exec in a process that may have
// threads.
[[noreturn]] void become(const Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.launcher) ::_exit(0);  // the launcher died before prctl()
  ::setsid();
  const pid_t group = ::getpid();
  [[maybe_unused]] const ssize_t guarded = ::write(start.guard, &group, sizeof group);
  if (::dup2(start.output, STDOUT_FILENO) >= 0 && ::dup2(start.errors, STDERR_FILENO) >= 0) {
    ::sigprocmask(SIG_SETMASK, start.blocked, nullptr);
    ::execve(start.path, start.words, start.environment);
  }
  const int reason = errno;
  [[maybe_unused]] const ssize_t told = ::write(start.report, &reason, sizeof reason);
  ::_exit(127);
}

// The fields of /proc/PROCESS/stat after the name; empty if the process has ended.
std::string stat_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t name_end = text.rfind(") ");  // the name may contain anything
  return name_end == std::string::npos ? "" : text.substr(name_end + 2);
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

pid_t start_process(const Program& program, const Words& environment, int output, int errors,
                    const sigset_t& blocked, int guard) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) fail(ExitCode::kHostMemory, "no pipe for a rank", errno);
  const Descriptor heard(report[0]);
  Descriptor told(report[1]);
  std::vector<char*> words = pointers(program.words), variables = pointers(environment);
  const Start start{
      ::getpid(), program.path.c_str(), words.data(), variables.data(), output, errors, report[1], guard,
      &blocked};
  const pid_t pid = ::fork();
  if (pid < 0) fail(ExitCode::kHostMemory, "cannot start another process", errno);
  if (pid == 0) become(start);
  told.close();
  int reason = 0;  // nothing is read if exec succeeds, because exec closes the pipe
  ssize_t size;
  while ((size = ::read(heard.get(), &reason, sizeof reason)) < 0 && errno == EINTR) {
  }
  if (size == sizeof reason) fail(ExitCode::kConfiguration, program.path + " cannot be executed", reason);
  return pid;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code none;
  if (std::filesystem::read_symlink("/proc/self", none) != std::to_string(::getpid())) return found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const std::string stat = stat_of(std::to_string(pid));
    if (stat.size() > 2 && std::atoi(stat.c_str() + 2) == ::getpid()) found.push_back(pid);
  }
  return found;
}

bool is_stopped(pid_t process) {
  const std::string stat = stat_of(std::to_string(process));
  return !stat.empty() && (stat[0] == 'T' || stat[0] == 't');
}

bool end_children(const std::vector<pid_t>& spared) {
  const auto deadline = std::chrono::steady_clock::now() + kTimeToDie;
  while (true) {
    std::vector<pid_t> left = children();
    std::erase_if(left,
                  [&](pid_t pid) { return std::find(spared.begin(), spared.end(), pid) != spared.end(); });
    if (left.empty()) return true;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace recollect::launcher
