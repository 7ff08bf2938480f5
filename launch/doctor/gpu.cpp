// Checks NVIDIA's driver, devices and libraries. Each is loaded in a separate process: none of them is
// linked, and a broken one cannot harm this process.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "engine/nvidia/library.h"
#include "engine/runtime/cuda/device.h"
#include "launch/doctor/check.h"
#include "launch/doctor/child.h"

namespace recollect::doctor {

namespace {

using namespace std::chrono_literals;

constexpr auto kDriverPatience = 30s;  // the first call of the driver is slow

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// Runs in a separate process. Prints the driver's answers, one a line. Returns 1 without a driver, 2 if it
// refuses.
int ask_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto init = symbol<int (*)(unsigned)>(driver, "cuInit");
  const auto version = symbol<int (*)(int*)>(driver, "cuDriverGetVersion");
  const auto explain = symbol<int (*)(int, const char**)>(driver, "cuGetErrorString");
  const auto count = symbol<int (*)(int*)>(driver, "cuDeviceGetCount");
  const auto name = symbol<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
  const auto memory = symbol<int (*)(std::size_t*, int)>(driver, "cuDeviceTotalMem_v2");
  const auto attribute = symbol<int (*)(int*, int, int)>(driver, "cuDeviceGetAttribute");
  if (!init || !version || !count || !name || !memory || !attribute) {
    fmt::print("libcuda.so.1 is not whole\n");
    return 2;
  }
  if (const int error = init(0); error != 0) {
    const char* text = nullptr;
    if (explain) explain(error, &text);
    fmt::print("{} (error {})\n", text ? text : "it does not start", error);
    return 2;
  }
  int number = 0, devices = 0;
  version(&number);
  count(&devices);
  fmt::print("CUDA {}\n", cuda_version(number));
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  for (int i = 0; i < devices; ++i) {
    char text[256] = "";
    std::size_t bytes = 0;
    int major = 0, minor = 0;
    name(text, sizeof text - 1, i);
    memory(&bytes, i);
    attribute(&major, kMajor, i);
    attribute(&minor, kMinor, i);
    fmt::print("{}, {}, compute capability {}.{}\n", text, gib(bytes), major, minor);
  }
  return 0;
}

std::vector<Check> driver(const SystemFiles& files) {
  const Ended ended = run_apart(ask_driver, kDriverPatience);
  Check check{.name = "CUDA driver", .status = Status::kMissing};
  if (ended.in_time && ended.status == 1) {
    const bool device = files.exists("/dev/nvidia0") || files.exists("/dev/nvidiactl");
    if (!device) check.status = Status::kNone;
    check.found = device ? "there is a device, but no libcuda.so.1" : "no libcuda.so.1";
    check.fix = device ? "start the container with --gpus all, or install NVIDIA's driver"
                       : "for a GPU, install NVIDIA's driver; training on the CPU needs none";
    return {check};
  }
  if (!ended.good()) {
    check.found = fmt::format("libcuda.so.1 is there, and fails: {}",
                              ended.in_time && ended.status == 2 ? first_line(ended.output) : ended.how());
    check.fix = "nvidia-smi says more; a driver that was updated wants a reboot";
    return {check};
  }
  std::istringstream lines(ended.output);
  std::string line;
  std::getline(lines, line);
  std::vector<Check> checks{{.name = "CUDA driver", .found = line}};
  while (std::getline(lines, line))
    checks.push_back({.name = fmt::format("device {}", checks.size() - 1), .found = line});
  if (checks.size() == 1)
    checks.push_back({.name = "devices",
                      .status = Status::kMissing,
                      .found = "the driver sees none",
                      .fix = "CUDA_VISIBLE_DEVICES may hide them"});
  return checks;
}

// Whether this program has the CUDA backend. A build without it is not an error.
Check backend() {
  Check check{.name = "CUDA backend"};
  const Ended ended = run_apart(
      [] {
        try {
          fmt::print("in this program; it sees {} devices\n", cuda::device_count());
          return 0;
        } catch (const Error& error) {
          fmt::print("{}\n{}\n", error.what(), error.hint());
          return 1;
        }
      },
      kDriverPatience);
  check.found = ended.in_time && ended.status <= 1 ? first_line(ended.output) : "it fails: " + ended.how();
  if (ended.good()) return check;
  check.status = cuda::is_built() ? Status::kMissing : Status::kNone;
  const std::size_t end = ended.output.find('\n');
  check.fix =
      ended.status == 1 && end != std::string::npos ? first_line(ended.output.substr(end + 1)) : "see below";
  return check;
}

// A library that the backend opens when a run starts.
struct Wanted {
  const char* name;
  cuda::LibraryName (*library)();
};

constexpr Wanted kWanted[] = {
    {"cublasLt", cuda::cublas_name}, {"cudnn", cuda::cudnn_name}, {"nccl", cuda::nccl_name}};

// Every version of cuBLASLt works, so that the search does not read its version.
std::size_t version_of(const cuda::Library& library) {
  return library.version() ? library.version() : library.function<std::size_t()>("cublasLtGetVersion")();
}

constexpr int kInNoPlace = 3;

// Searches the library as a run does, in a separate process. Prints two lines: what was found, and what to
// do.
int look_for(const Wanted& wanted) {
  int status = 0;
  try {
    const cuda::Library library(wanted.library(), cuda::search_places(cuda::SearchEnvironment::of_process()));
    const std::string before = fmt::format("{}", fmt::join(library.passed_over(), "; "));
    fmt::print("{} at {}{}\n", cuda::version_text(version_of(library)), library.path(),
               before.empty() ? "" : "; passed over: " + before);
  } catch (const Error& error) {
    std::istringstream lines(error.what());
    std::string text;
    std::getline(lines, text);
    bool looked = false, lies_somewhere = false;
    for (std::string line; std::getline(lines, line); looked = true) {  // the places that have one
      if (line.ends_with(": not there") || line.find("cannot open shared object file") != line.npos) continue;
      text += (lies_somewhere ? ";" : "") + line;
      lies_somewhere = true;
    }
    fmt::print("{}\nfor a GPU only: {}\n", text, error.hint());
    status = looked && !lies_somewhere ? kInNoPlace : 1;
  }
  std::fflush(stdout);
  ::_exit(status);  // without the library's destructors
}

Check library(const Wanted& wanted, bool has_gpu) {
  const Ended ended = run_apart([&] { return look_for(wanted); }, kDriverPatience);
  Check check{.name = wanted.name, .found = first_line(ended.output)};
  if (ended.good()) return check;
  check.status = Status::kMissing;
  if (ended.in_time && (ended.status == 1 || ended.status == kInNoPlace)) {
    if (ended.status == kInNoPlace && !has_gpu) check.status = Status::kNone;
    check.fix = first_line(ended.output.substr(ended.output.find('\n') + 1));
  } else {
    check.found = fmt::format("{} is there, and loading it fails: {}", wanted.library().soname, ended.how());
    check.fix = "for a GPU only: name the folder of another, RECOLLECT_NVIDIA_LIBRARIES=FOLDER";
  }
  return check;
}

}  // namespace

Group check_gpu(const SystemFiles& files) {
  Group group{"GPU", {backend()}};
  std::vector<Check> driver_and_devices = driver(files);
  const bool has_gpu = driver_and_devices.front().status != Status::kNone;
  if (!has_gpu && group.checks[0].status == Status::kMissing) group.checks[0].status = Status::kNone;
  for (Check& check : driver_and_devices) group.checks.push_back(std::move(check));
  for (const Wanted& wanted : kWanted) group.checks.push_back(library(wanted, has_gpu));
  return group;
}

}  // namespace recollect::doctor
