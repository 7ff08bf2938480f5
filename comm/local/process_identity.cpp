#include "comm/local/process_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace recollect::local {
namespace {

struct ProcessStat {
  char state = 0;  // 0 if there is no such process
  uint64_t start_time = 0;
};

// Does not allocate, because ranks check each other during training.
ProcessStat read_stat(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char line[1024];
  const ssize_t length = ::read(file, line, sizeof line - 1);
  ::close(file);
  if (length <= 0) return {};
  line[length] = '\0';
  // The name, in parentheses, may contain spaces and parentheses itself, so fields are counted from the last
  // one.
  const char* at = std::strrchr(line, ')');
  if (!at || at[1] != ' ') return {};
  ProcessStat stat{at[2], 0};
  constexpr int kFieldsFromNameToStart = 20;
  for (int i = 0; i < kFieldsFromNameToStart && at; ++i) at = std::strchr(at + 1, ' ');
  if (!at) return {};
  stat.start_time = std::strtoull(at + 1, nullptr, 10);
  return stat;
}

uint64_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

ProcessIdentity this_process() {
  const int64_t pid = ::getpid();
  return {pid, read_stat(pid).start_time, pid_namespace()};
}

bool may_be_alive(const ProcessIdentity& process) {
  if (process.start_time == 0 || process.pid_namespace != pid_namespace()) return true;
  const ProcessStat stat = read_stat(process.pid);
  return stat.state != 0 && stat.state != 'Z' && stat.state != 'X' && stat.start_time == process.start_time;
}

}  // namespace recollect::local
