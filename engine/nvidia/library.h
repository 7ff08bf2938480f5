// One of NVIDIA's shared libraries, opened while the program runs: it starts, plans and estimates where there
// is none. The first one found is taken: in the folders of RECOLLECT_NVIDIA_LIBRARIES, by the loader's own
// rules (LD_LIBRARY_PATH and the system's list), in pip's folders, in the CUDA toolkits.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/nvidia/library_search.h"

namespace recollect::cuda {

struct LibraryName {
  std::string title;   // "cuBLASLt"
  std::string soname;  // "libcublasLt.so.13": the major version that our headers were made for
  std::string fix;     // what to do where it is missing
};

// Those of the backend, in the major versions that it was made for.
LibraryName cublas_name();
LibraryName cudnn_name();
LibraryName nccl_name();

class Library {
 public:
  // Error kConfiguration where it is nowhere, naming every place, and where the first one found in a folder
  // that the user names cannot be loaded. Elsewhere a file that cannot be loaded is passed over.
  Library(LibraryName name, const SearchPlaces& places);

  const std::string& title() const { return name_.title; }
  const std::string& path() const { return path_; }  // of the file that was loaded
  void* handle() const { return handle_; }

  // Error kConfiguration where the library has no such function.
  template <typename F>
  F* function(const char* name) const {
    static_assert(std::is_function_v<F>, "give the function's type: decltype(::name)");
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  bool open(const std::string& file, std::string& why);
  void* symbol(const char* name) const;

  LibraryName name_;
  std::string path_;
  // Never closed: these libraries keep threads and exit handlers of their own, which outlive any owner.
  void* handle_ = nullptr;
};

// Their versions: 91900 is 9.19.0, 22809 is 2.28.9. Error kConfiguration where one is older than the backend
// needs.
inline constexpr int kOldestNccl = 22800;
std::size_t cudnn_version(const Library& cudnn);
int nccl_version(const Library& nccl);

}  // namespace recollect::cuda
