#include "engine/nvidia/library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

#include "engine/core/error.h"

namespace recollect::cuda {

namespace {

// The loader knows a library by the name that it was asked for; where it lies, the process's link map says.
std::string file_of(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name) return map->l_name;
  return asked;
}

// cuDNN's first whose backward needs no padding mask of the host's making when a sequence is not whole tiles:
// such a mask is copied from memory that a recorded step may outlive.
constexpr std::size_t kOldestCudnn = 91600;

[[noreturn]] void refuse_version(const std::string& title, const std::string& path, std::size_t version,
                                 std::size_t oldest, const std::string& wheel) {
  const auto text = [](std::size_t v) {
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100);
  };
  throw Error(
      ExitCode::kConfiguration, title + " " + text(version) + " at " + path + " is too old",
      "take " + text(oldest) + " or newer: pip install " + wheel + ", or RECOLLECT_NVIDIA_LIBRARIES=FOLDER");
}

}  // namespace

LibraryName cublas_name() {
  return {"cuBLASLt", "libcublasLt.so.13",
          "install the CUDA toolkit 13 or its wheel: pip install 'nvidia-cublas==13.*'"};
}

LibraryName cudnn_name() {
  return {"cuDNN", "libcudnn.so.9", "install cuDNN 9 or its wheel: pip install nvidia-cudnn-cu13"};
}

LibraryName nccl_name() {
  return {"NCCL", "libnccl.so.2", "install NCCL or its wheel: pip install nvidia-nccl-cu13"};
}

std::size_t cudnn_version(const Library& cudnn) {
  const std::size_t version = cudnn.function<std::size_t()>("cudnnGetVersion")();
  if (version < kOldestCudnn)
    refuse_version(cudnn.title(), cudnn.path(), version, kOldestCudnn, "nvidia-cudnn-cu13");
  return version;
}

int nccl_version(const Library& nccl) {
  int version = 0;
  if (nccl.function<int(int*)>("ncclGetVersion")(&version) != 0 || version < kOldestNccl)
    refuse_version(nccl.title(), nccl.path(), static_cast<std::size_t>(version), kOldestNccl,
                   "nvidia-nccl-cu13");
  return version;
}

Library::Library(LibraryName name, const SearchPlaces& places) : name_(std::move(name)) {
  std::string tried, why;
  const auto fail = [&] {
    throw Error(ExitCode::kConfiguration, name_.title + " (" + name_.soname + ") cannot be loaded:" + tried,
                name_.fix + ", or name its folder: RECOLLECT_NVIDIA_LIBRARIES=FOLDER[:FOLDER...]");
  };
  const auto open_in = [&](const std::string& folder, bool named) {
    const std::string file = folder + "/" + name_.soname;
    std::error_code error;
    const bool there = std::filesystem::exists(file, error);
    if (there && open(file, why)) return true;
    tried += "\n  " + folder + ": " + (there ? why : "not there");
    if (there && named) fail();
    return false;
  };
  for (const std::string& folder : places.first)
    if (open_in(folder, true)) return;
  if (open(name_.soname, why)) return;
  tried += "\n  the loader's path: " + why;
  for (const std::string& folder : places.then)
    if (open_in(folder, false)) return;
  fail();
}

bool Library::open(const std::string& file, std::string& why) {
  handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) {
    const char* text = dlerror();
    why = text ? text : "unknown error";
    return false;
  }
  path_ = file_of(handle_, file);
  return true;
}

void* Library::symbol(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found)
    throw Error(ExitCode::kConfiguration, name_.title + " at " + path_ + " has no function " + name,
                "it is older than this recollect needs; " + name_.fix);
  return found;
}

}  // namespace recollect::cuda
