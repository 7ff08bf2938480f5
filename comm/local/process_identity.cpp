#include "comm/local/process_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace recollect::local {
namespace {

struct ProcessStat {
  char state = 0;  // 0 when there is no such process
  uint64_t start_time = 0;
};

ProcessStat read_stat(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  // The name, in parentheses, may itself hold spaces and parentheses: fields count from behind the last one.
  const auto behind_name = line.rfind(')');
  if (behind_name == std::string::npos) return {};
  std::istringstream fields(line.substr(behind_name + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  constexpr int kFieldsBetweenStateAndStart = 18;
  for (int i = 0; i < kFieldsBetweenStateAndStart; ++i) fields >> skipped;
  fields >> stat.start_time;
  return fields ? stat : ProcessStat{};
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
