// NVIDIA's driver, devices and libraries. Each is loaded in a process of its own: nothing of them is linked,
// and what is broken in them stays there.
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/runtime/cuda/device.h"
#include "launch/doctor/check.h"
#include "launch/doctor/child.h"

namespace recollect::doctor {

namespace {

using namespace std::chrono_literals;

constexpr auto kDriverPatience = 30s;  // the driver wakes up slowly

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// In a process of its own: what the driver says, a line each. 1: no driver, 2: it refuses.
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

// Whether this program could use a device at all.
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
  check.status = Status::kMissing;
  const std::size_t end = ended.output.find('\n');
  check.fix =
      ended.status == 1 && end != std::string::npos ? first_line(ended.output.substr(end + 1)) : "see below";
  return check;
}

struct Library {
  const char* name;
  std::vector<const char*> files;  // newest first
  // Writes its version, in the process that has loaded it.
  std::string (*version)(void* library);
};

std::string decimal(std::size_t number, std::size_t major, std::size_t minor) {
  return fmt::format("{}.{}.{}", number / major, number % major / minor, number % minor);
}

const std::vector<Library>& libraries() {
  static const std::vector<Library> table = {
      {"cudart",
       {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
       [](void* library) {
         const auto ask = symbol<int (*)(int*)>(library, "cudaRuntimeGetVersion");
         int number = 0;
         return ask && ask(&number) == 0 ? cuda_version(number) : std::string();
       }},
      {"cublasLt",
       {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
       [](void* library) {
         const auto ask = symbol<std::size_t (*)()>(library, "cublasLtGetVersion");
         return ask ? decimal(ask(), 10000, 100) : std::string();
       }},
      {"cudnn",
       {"libcudnn.so.9", "libcudnn.so.8"},
       [](void* library) {
         const auto ask = symbol<std::size_t (*)()>(library, "cudnnGetVersion");
         const std::size_t number = ask ? ask() : 0;
         if (number == 0) return std::string();
         return number >= 90000 ? decimal(number, 10000, 100) : decimal(number, 1000, 100);
       }},
      {"nccl",
       {"libnccl.so.2"},
       [](void* library) {
         const auto ask = symbol<int (*)(int*)>(library, "ncclGetVersion");
         int number = 0;
         return ask && ask(&number) == 0 ? decimal(static_cast<std::size_t>(number), 10000, 100)
                                         : std::string();
       }},
  };
  return table;
}

std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> found;
  glob_t paths{};
  if (::glob(pattern.c_str(), 0, nullptr, &paths) == 0)
    for (std::size_t i = 0; i < paths.gl_pathc; ++i) found.emplace_back(paths.gl_pathv[i]);
  ::globfree(&paths);
  return found;
}

struct Place {
  std::string folder, kind;
};

// Where else than on the loader's path these libraries are wont to lie.
std::vector<Place> usual_places() {
  std::vector<Place> places;
  const auto add = [&](const std::string& pattern, const char* kind) {
    for (const std::string& folder : matches(pattern)) places.push_back({folder, kind});
  };
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(name)) add(std::string(root) + "/lib64", "CUDA toolkit");
  add("/usr/local/cuda/lib64", "CUDA toolkit");
  add("/usr/local/cuda-*/lib64", "CUDA toolkit");
  std::set<std::string> sites;
  const Ended python = run_program(
      {"python3", "-c",
       "import site, sys; print('\\n'.join(site.getsitepackages() + [site.getusersitepackages()]))"},
      "", 10s);
  std::istringstream lines(python.good() ? python.output : "");
  for (std::string line; std::getline(lines, line);) sites.insert(line);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* root = std::getenv(name))
      for (const std::string& site : matches(std::string(root) + "/lib/python3*/site-packages"))
        sites.insert(site);
  for (const char* pattern : {"/usr/lib/python3*/dist-packages", "/usr/local/lib/python3*/dist-packages"})
    for (const std::string& site : matches(pattern)) sites.insert(site);
  for (const std::string& site : sites) add(site + "/nvidia/*/lib", "pip");
  return places;
}

// Loads `file` in a process of its own. Output: its path and its version.
Ended load(const std::string& file, const Library& library) {
  return run_apart(
      [&] {
        void* loaded = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (loaded == nullptr) {
          fmt::print("{}\n", ::dlerror());
          return 1;
        }
        link_map* map = nullptr;
        const bool known = ::dlinfo(loaded, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
        fmt::print("{}\n{}\n", known ? map->l_name : file, library.version(loaded));
        std::fflush(stdout);
        ::_exit(0);  // whatever its destructors would do
      },
      kDriverPatience);
}

std::string sentence(const Ended& loaded, const std::string& kind) {
  const std::string path = first_line(loaded.output);
  const std::string version =
      first_line(loaded.output.substr(std::min(loaded.output.size(), path.size() + 1)));
  return fmt::format("{} at {} ({})", version.empty() ? "of unknown version" : version, path, kind);
}

Check find_library(const Library& library, const std::vector<Place>& places) {
  Check check{.name = library.name, .status = Status::kMissing};
  for (const char* file : library.files) {
    const Ended loaded = load(file, library);
    if (loaded.good()) return {.name = library.name, .found = sentence(loaded, "loader's path")};
    if (!loaded.in_time || loaded.status != 1)
      check.found = fmt::format("{} on the loader's path fails: {}; ", file, loaded.how());
  }
  for (const char* file : library.files)
    for (const Place& place : places) {
      const std::string path = place.folder + "/" + file;
      if (matches(path).empty()) continue;
      const Ended loaded = load(path, library);
      if (loaded.good()) {
        check.status = Status::kWarn;
        check.found += sentence(loaded, place.kind);
        check.fix = "for programs to find it: export LD_LIBRARY_PATH=" + place.folder;
        return check;
      }
      check.found +=
          fmt::format("{} does not load: {}; ", path,
                      loaded.in_time && loaded.status == 1 ? first_line(loaded.output) : loaded.how());
    }
  check.found += fmt::format("no {} that loads", library.files.front());
  check.fix =
      "for a GPU only: the CUDA toolkit has cudart and cublasLt; pip's nvidia-cudnn-cu13 and "
      "nvidia-nccl-cu13 the others";
  return check;
}

}  // namespace

Group check_gpu(const SystemFiles& files) {
  Group group{"GPU", {backend()}};
  for (Check& check : driver(files)) group.checks.push_back(std::move(check));
  const std::vector<Place> places = usual_places();
  for (const Library& library : libraries()) group.checks.push_back(find_library(library, places));
  return group;
}

}  // namespace recollect::doctor
