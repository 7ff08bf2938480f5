// Asks a library's file about itself in a child process, so that a file that is looked at and not used leaves
// nothing in this process. cuDNN opens its parts by bare names and keeps them; a later cuDNN would get those.
#pragma once

#include <cstddef>
#include <string>

namespace recollect::cuda {

struct LibraryName;

struct LibraryAnswer {
  bool loads = false;
  std::string path = {};    // the file that was loaded
  std::size_t version = 0;  // 91600 is 9.16.0
  std::string why = {};     // the reason if it does not load
};

LibraryAnswer ask_library(const LibraryName& name, const std::string& file);

// An opened library and its file. Its parts (LibraryName::parts) are opened before it, from its own folder,
// and stay open.
struct OpenedLibrary {
  void* handle = nullptr;
  std::string path = {}, why = {};
};
enum class Parts { kFirst, kAll };  // the first part is the one that the others and the library itself need
// The result has no handle if no library of that name is in this process.
OpenedLibrary loaded_library(const LibraryName& name);
OpenedLibrary open_library(const LibraryName& name, const std::string& file, Parts parts);

}  // namespace recollect::cuda
