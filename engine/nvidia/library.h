// One of NVIDIA's shared libraries, opened while the program runs: it starts, plans and estimates where there
// is none. The first one that is new enough is taken: in the folders of RECOLLECT_NVIDIA_LIBRARIES, by the loader's
// own rules (LD_LIBRARY_PATH and the system's list), in pip's folders, in the CUDA toolkits.
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
  std::string fix;         // what to do where it is missing
  std::size_t oldest = 0;  // that will do, as the library says it: 91600 is 9.16.0
  std::size_t (*version)(void* handle) = nullptr;  // asks an opened one. nullptr: every version will do
  std::string parts = {};                          // files of its folder that begin so are parts of it
  std::vector<std::string> first_parts = {};       // which of them come first, the rest of their names
};

std::string version_text(std::size_t version);  // 91600: "9.16.0"

// Those of the backend, in the major versions that it was made for.
LibraryName cublas_name();
LibraryName cudnn_name();
LibraryName nccl_name();

class Library {
 public:
  // Error kConfiguration where none is new enough, naming every place, and where one in a folder that the user
  // names cannot be loaded. Elsewhere a file that cannot be loaded is passed over. Parts come from its own folder. One
  // that is in this process already, for another rank of it, is taken again.
  Library(LibraryName name, const SearchPlaces& places);

  const std::string& title() const { return name_.title; }
  const std::string& path() const { return path_; }  // of the file that was loaded
  std::size_t version() const { return version_; }   // 0 where it is not asked
  // What was found before it: "9.14.0 at FILE is too old".
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  void* handle() const { return handle_; }

  // Error kConfiguration where the library has no such function.
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
