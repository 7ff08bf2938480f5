#include "engine/ops/cuda/library.h"

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

}  // namespace

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
