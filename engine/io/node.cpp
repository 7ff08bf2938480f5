#include "engine/io/node.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "engine/core/error.h"
#include "engine/io/descriptor.h"
#include "engine/io/system_files.h"

namespace recollect {

int within_quota(int cores, const SystemFiles& files) {
  const std::optional<CoreQuota> quota = core_quota(files);
  return std::max(1, quota && quota->cores < cores ? static_cast<int>(quota->cores) : cores);
}

int cores_to_use() {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return within_quota(known ? CPU_COUNT(&allowed) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
                      SystemFiles());
}

int count_gpus(const char* visible_devices, const std::string& driver) {
  std::error_code none;
  const std::filesystem::directory_iterator gpus(driver, none);
  const auto there = none ? 0 : static_cast<int>(std::distance(begin(gpus), end(gpus)));
  if (!visible_devices) return there;
  int visible = 0;
  std::istringstream all(visible_devices);
  for (std::string entry; std::getline(all, entry, ','); ++visible) {
    if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) continue;
    char* end = nullptr;
    const long index = std::strtol(entry.c_str(), &end, 10);
    if (end == entry.c_str() || *end != '\0' || index < 0 || index >= there) break;
  }
  return there == 0 ? 0 : visible;
}

int count_gpus() { return count_gpus(std::getenv("CUDA_VISIBLE_DEVICES"), "/proc/driver/nvidia/gpus"); }

uint16_t free_port() {
  constexpr unsigned kFirst = 10000, kPorts = 20000;
  static std::atomic<unsigned> calls = 0;
  const auto start = static_cast<unsigned>(::getpid()) * 131U;  // processes start at different ports
  for (unsigned tried = 0; tried < kPorts; ++tried) {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(kFirst + (start + calls++) % kPorts));
    if (!listener) break;
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      return ntohs(address.sin_port);
    if (errno != EADDRINUSE) break;
  }
  throw Error(ExitCode::kConfiguration,
              "no free port on 127.0.0.1: " + std::generic_category().message(errno),
              "name one with --master-port");
}

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace recollect
