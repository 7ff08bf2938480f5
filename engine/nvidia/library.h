// One of NVIDIA's shared libraries, opened at run time, so that the program also starts, plans and estimates
// without it. The first file that is new enough is used, in this order: the folders of
// RECOLLECT_NVIDIA_LIBRARIES, the loader's own rules (LD_LIBRARY_PATH and the system's list), pip's folders,
// the CUDA toolkits.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/nvidia/library_search.h"

namespace recollect::cuda {

struct LibraryName {
  std::string title;       // "cuBLASLt"
  std::string soname;      // "libcublasLt.so.13": the major version that our headers were made for
  std::string fix;         // what to do if it is missing
  std::size_t oldest = 0;  // the oldest version that will do, as the library numbers it: 91600 is 9.16.0
  std::size_t (*version)(void* handle) = nullptr;  // asks an opened library; nullptr: any version will do
  std::string parts = {};                          // how the names of its parts begin: files in its folder
  std::vector<std::string> first_parts = {};       // the parts to open first, by the rest of their names
};

std::string version_text(std::size_t version);  // 91600: "9.16.0"

// The libraries of the backend, in the major versions that it was made for.
LibraryName cublas_name();
LibraryName cudnn_name();
LibraryName nccl_name();

class Library {
 public:
  // Throws Error kConfiguration, naming every place, if no file is new enough, and if a file in a folder that
  // the user named cannot be loaded. Elsewhere a file that cannot be loaded is skipped. Parts come from the
  // library's own folder. A library that is in this process already, for another rank, is used again.
  Library(LibraryName name, const SearchPlaces& places);

  const std::string& title() const { return name_.title; }
  const std::string& path() const { return path_; }  // of the file that was loaded
  std::size_t version() const { return version_; }   // 0 if it was not asked
  // The files that were found first and rejected: "9.14.0 at FILE is too old".
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  void* handle() const { return handle_; }

  // Throws Error kConfiguration if the library has no such function.
  template <typename F>
  F* function(const char* name) const {
    static_assert(std::is_function_v<F>, "give the function's type: decltype(::name)");
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  bool take_loaded();
  bool take(const std::string& file, std::string& why);
  void* symbol(const char* name) const;

  LibraryName name_;
  std::string path_;
  std::size_t version_ = 0;
  std::vector<std::string> passed_over_;
  // Never closed: these libraries keep threads and exit handlers of their own, which outlive any owner.
  void* handle_ = nullptr;
};

inline constexpr int kOldestNccl = 22800;

}  // namespace recollect::cuda
