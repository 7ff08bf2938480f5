// Checks memory and the limits related to it.
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "launch/doctor/check.h"

namespace recollect::doctor {

namespace {

constexpr uint64_t kMebibyte = 1 << 20;

Check memory(const SystemFiles& files) {
  const std::string text = files.read("/proc/meminfo").value_or("");
  const std::optional<uint64_t> total = meminfo(text, "MemTotal"), free = meminfo(text, "MemAvailable");
  const std::optional<uint64_t> limit = memory_limit(files);
  Check check{.name = "memory"};
  if (total && free) {
    check.found = fmt::format("{} of {} available", gib(*free), gib(*total));
  } else {
    const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
    check.found = pages > 0 && size > 0 ? gib(static_cast<uint64_t>(pages) * static_cast<uint64_t>(size)) +
                                              "; what of it is available is not known: no /proc/meminfo"
                                        : "not known: no /proc/meminfo";
    check.status = Status::kWarn;
    check.fix = "mount /proc";
  }
  check.found +=
      limit ? fmt::format("; the control group allows {}", gib(*limit)) : "; no limit from a control group";
  if ((free && *free < 512 * kMebibyte) || (limit && *limit < 512 * kMebibyte)) {
    check.status = Status::kWarn;
    check.fix = "`recollect estimate` says what a run takes; end other programs, or raise the limit";
  } else if (limit && total && *limit < *total) {
    check.fix = fmt::format("let device.memory_limit x ranks stay below {}: beyond, the system ends the run",
                            gib(*limit));
  }
  return check;
}

Check huge_pages(const SystemFiles& files) {
  const std::optional<std::string> text = files.read("/sys/kernel/mm/transparent_hugepage/enabled");
  Check check{.name = "huge pages"};
  const std::size_t open = text ? text->find('[') : std::string::npos;
  if (open == std::string::npos) {
    check.found = "not known: no /sys/kernel/mm/transparent_hugepage";
    return check;
  }
  const std::string mode = text->substr(open + 1, text->find(']', open) - open - 1);
  check.found = "transparent huge pages: " + mode;
  if (mode == "never") {
    check.status = Status::kWarn;
    check.fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled spares page-table misses";
  }
  return check;
}

std::string limit_text(rlim_t value, bool bytes) {
  if (value == RLIM_INFINITY) return "unlimited";
  return bytes ? gib(value) : fmt::format("{}", static_cast<uint64_t>(value));
}

// Below `low` the check shows `fix`.
Check limit(const char* name, __rlimit_resource which, bool bytes, uint64_t low, const char* fix) {
  rlimit value{};
  Check check{.name = name};
  if (::getrlimit(which, &value) != 0) {
    check.found = "not known";
    return check;
  }
  check.found = limit_text(value.rlim_cur, bytes);
  if (value.rlim_max != value.rlim_cur)
    check.found += "; may be raised to " + limit_text(value.rlim_max, bytes);
  if (value.rlim_cur != RLIM_INFINITY && value.rlim_cur < low) {
    check.status = Status::kWarn;
    check.fix = fix;
  }
  return check;
}

// Below `low` free bytes the check shows `fix`.
Check space(const char* name, const std::string& folder, uint64_t low, const char* fix) {
  Check check{.name = name};
  struct statvfs room {};
  if (::statvfs(folder.c_str(), &room) != 0) {
    check.status = Status::kMissing;
    check.found = fmt::format("{}: {}", folder, std::strerror(errno));
    check.fix = fix;
    return check;
  }
  const uint64_t free = uint64_t{room.f_bavail} * room.f_frsize,
                 all = uint64_t{room.f_blocks} * room.f_frsize;
  check.found = fmt::format("{}: {} of {} free", folder, gib(free), gib(all));
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    check.status = Status::kMissing;
    check.found += "; it cannot be written";
    check.fix = fix;
  } else if (free < low) {
    check.status = Status::kWarn;
    check.fix = fix;
  }
  return check;
}

}  // namespace

Group check_memory(const SystemFiles& files) {
  const char* folder = std::getenv("TMPDIR");
  const bool fabric = files.exists("/sys/class/infiniband");
  return {
      "memory",
      {memory(files), huge_pages(files),
       // CUDA's pinned memory does not count against this limit; a network fabric's does.
       limit("locked memory", RLIMIT_MEMLOCK, true, fabric ? RLIM_INFINITY : 0,
             "MPI over InfiniBand wants it unlimited: ulimit -l unlimited, or /etc/security/limits.conf"),
       limit("open files", RLIMIT_NOFILE, false, 1024, "ulimit -n 4096"),
       space("shared memory", "/dev/shm", 64 * kMebibyte,
             "ranks of one machine talk through it, 8 MiB each and more: mount it as tmpfs; in a container, "
             "--shm-size=1g"),
       space("temporary files", folder && *folder ? folder : "/tmp", 256 * kMebibyte,
             "free some space, or point TMPDIR elsewhere; mpirun works there")}};
}

std::string gib(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes < (uint64_t{1} << 30) ? fmt::format("{:.1f} MiB", value / (1 << 20))
                                     : fmt::format("{:.1f} GiB", value / (1 << 30));
}

}  // namespace recollect::doctor
