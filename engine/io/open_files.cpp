#include "engine/io/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace recollect {

std::string open_files_hint(int error) {
  constexpr rlim_t kLeast = 1024, kTimes = 4;
  if (error == ENFILE)
    return "all processes together have as many files open as this machine allows: fs.file-max of sysctl";
  rlimit limit{};
  if (error != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return fmt::format("a process may have {} files open here: raise that first, ulimit -n {}", limit.rlim_cur,
                     std::max(kLeast, kTimes * limit.rlim_cur));
}

}  // namespace recollect
