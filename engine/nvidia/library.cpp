#include "engine/nvidia/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "engine/core/error.h"
#include "engine/nvidia/library_answer.h"

namespace recollect::cuda {

namespace {

// The first cuDNN whose backward needs no padding mask made by the host when a sequence is not whole tiles.
// Such a mask is copied from memory that a captured step may outlive.
constexpr std::size_t kOldestCudnn = 91600;

template <typename F>
F* function_of(void* handle, const char* name) {
  return reinterpret_cast<F*>(dlsym(handle, name));
}

std::size_t cudnn_version(void* handle) {
  const auto ask = function_of<std::size_t()>(handle, "cudnnGetVersion");
  return ask ? ask() : 0;
}

std::size_t nccl_version(void* handle) {
  const auto ask = function_of<int(int*)>(handle, "ncclGetVersion");
  int version = 0;
  return ask && ask(&version) == 0 ? static_cast<std::size_t>(version) : 0;
}

}  // namespace

std::string version_text(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

LibraryName cublas_name() {
  return {"cuBLASLt", "libcublasLt.so.13",
          "install the CUDA toolkit 13 or its wheel: pip install 'nvidia-cublas==13.*'"};
}

LibraryName cudnn_name() {
  return {"cuDNN",
          "libcudnn.so.9",
          "install cuDNN 9.16 or newer, or its wheel: pip install nvidia-cudnn-cu13",
          kOldestCudnn,
          cudnn_version,
          "libcudnn_",
          {"graph", "ops"}};
}

LibraryName nccl_name() {
  return {"NCCL", "libnccl.so.2", "install NCCL 2.28 or newer, or its wheel: pip install nvidia-nccl-cu13",
          kOldestNccl, nccl_version};
}

Library::Library(LibraryName name, const SearchPlaces& places) : name_(std::move(name)) {
  static std::mutex one_at_a_time;  // what another thread loads meanwhile would be in the child process
  const std::lock_guard lock(one_at_a_time);
  if (name_.version && take_loaded()) return;
  std::string tried, why;
  const auto fail = [&] {
    const std::string wanted = name_.oldest ? " " + version_text(name_.oldest) + " or newer" : "";
    throw Error(ExitCode::kConfiguration,
                name_.title + wanted + " (" + name_.soname + ") cannot be loaded:" + tried,
                name_.fix + ", or name its folder: RECOLLECT_NVIDIA_LIBRARIES=FOLDER[:FOLDER...]");
  };
  const auto take_in = [&](const std::string& folder, bool named) {
    const std::string file = folder + "/" + name_.soname;
    std::error_code error;
    const bool there = std::filesystem::exists(file, error);
    const std::size_t old = passed_over_.size();
    if (there && take(file, why)) return true;
    tried += "\n  " + folder + ": " + (there ? why : "not there");
    if (there && named && passed_over_.size() == old) fail();
    return false;
  };
  for (const std::string& folder : places.first)
    if (take_in(folder, true)) return;
  if (take(name_.soname, why)) return;
  tried += "\n  the loader's path: " + why;
  for (const std::string& folder : places.then)
    if (take_in(folder, false)) return;
  fail();
}

bool Library::take_loaded() {
  const OpenedLibrary opened = loaded_library(name_);
  if (!opened.handle || name_.version(opened.handle) < name_.oldest) return false;
  handle_ = opened.handle;
  path_ = opened.path;
  version_ = name_.version(handle_);
  return true;
}

bool Library::take(const std::string& file, std::string& why) {
  std::string found = file;
  if (name_.version) {
    const LibraryAnswer answer = ask_library(name_, file);
    why = answer.why;
    if (!answer.loads) return false;
    found = answer.path;
    version_ = answer.version;
    if (version_ < name_.oldest) {
      why = version_text(version_) + " at " + found + " is too old";
      if (std::find(passed_over_.begin(), passed_over_.end(), why) == passed_over_.end())
        passed_over_.push_back(why);
      return false;
    }
  }
  OpenedLibrary opened = open_library(name_, found, Parts::kAll);
  why = opened.why;
  if (!opened.handle) return false;
  handle_ = opened.handle;
  path_ = std::move(opened.path);
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
