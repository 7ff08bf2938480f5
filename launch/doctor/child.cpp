#include "launch/doctor/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

extern char** environ;

namespace recollect::doctor {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kMostOutput = 64 << 10;
constexpr auto kGrace = 2s;  // between asking a process to end and ending it

// Runs in the child and never returns.
[[noreturn]] void be_child(int output, pid_t parent, const std::function<int()>& body) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(126);  // the parent ended before prctl()
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  const int status = body();
  std::fflush(nullptr);
  ::_exit(status);
}

// Reads available output. Returns false at its end.
bool drain(int from, std::string& output) {
  char buffer[4096];
  const ssize_t got = ::read(from, buffer, sizeof buffer);
  if (got > 0) output.append(buffer, std::min<std::size_t>(got, kMostOutput - output.size()));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

// Reads output until the child has ended or the time is over; returns whether it has ended. It does not wait
// for the child's own children, which may keep the pipe open. The child stays a zombie, so that no other
// process gets its number or its group.
bool watch(pid_t child, int from, Clock::time_point deadline, std::string& output) {
  bool open = true;
  for (;;) {
    pollfd ready{from, POLLIN, 0};
    const bool more = open && ::poll(&ready, 1, 20) > 0;
    if (more) open = drain(from, output);
    siginfo_t state{};
    const bool known = ::waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) == 0;
    if ((known && state.si_pid == child && !more) || (!known && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    if (!open) ::poll(nullptr, 0, 5);
  }
}

bool is_a_launchers(const std::string& name) {
  for (const char* prefix : {"OMPI_COMM_", "OMPI_UNIVERSE", "PMIX_", "PMI_", "SLURM_", "TORCHELASTIC_",
                             "RECOLLECT_RANK", "RECOLLECT_WORLD", "RECOLLECT_LOCAL", "RECOLLECT_RUN"})
    if (name.starts_with(prefix)) return true;
  return name == "RANK" || name == "WORLD_SIZE" || name == "LOCAL_RANK" || name == "LOCAL_WORLD_SIZE";
}

void forget_launchers() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry)
    names.emplace_back(*entry, std::strcspn(*entry, "="));
  for (const std::string& name : names)
    if (is_a_launchers(name)) ::unsetenv(name.c_str());
}

}  // namespace

std::string Ended::how() const {
  if (!in_time) return "no answer in time";
  return status > 128 ? fmt::format("signal {}", status - 128) : fmt::format("exit status {}", status);
}

Ended run_apart(const std::function<int()>& body, std::chrono::milliseconds bound) {
  Ended ended;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ended;
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::fflush(nullptr);  // or the child would print the buffer again
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) be_child(ends[1], parent, body);
  ::close(ends[1]);
  if (child > 0) {
    ::setpgid(child, child);  // parent and child both do this
    ended.in_time = watch(child, ends[0], Clock::now() + bound, ended.output);
    if (!ended.in_time) {  // on SIGTERM mpirun ends its ranks
      ::kill(-child, SIGTERM);
      watch(child, ends[0], Clock::now() + kGrace, ended.output);
    }
    ::kill(-child, SIGKILL);  // also processes that it left behind
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ended.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  ::close(ends[0]);
  return ended;
}

Ended run_program(const std::vector<std::string>& words, const std::string& folder,
                  std::chrono::milliseconds bound) {
  return run_apart(
      [&] {
        forget_launchers();
        if (!folder.empty() && ::chdir(folder.c_str()) != 0) return 126;
        std::vector<char*> arguments;
        for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        ::execvp(arguments[0], arguments.data());
        return 127;
      },
      bound);
}

std::string first_line(const std::string& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::string line = text.substr(begin, text.find('\n', begin) - begin);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
  return line;
}

std::string telling_line(const std::string& text) {
  std::istringstream lines(text);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("recollect: ")) return line;
    if (first.empty() &&
        std::any_of(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c); }))
      first = first_line(line);
  }
  return first;
}

}  // namespace recollect::doctor
