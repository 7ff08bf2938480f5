// What a library's file says of itself, asked in a process of its own: one that is looked at and not taken must leave
// nothing behind. cuDNN opens its parts by their names alone, and keeps them; a later cuDNN would be given those.
#pragma once

#include <cstddef>
#include <string>

namespace recollect::cuda {

struct LibraryName;

struct LibraryAnswer {
  bool loads = false;
  std::string path = {};    // where the file lies
  std::size_t version = 0;  // 91600 is 9.16.0
  std::string why = {};     // where it does not load
};

LibraryAnswer ask_library(const LibraryName& name, const std::string& file);

// The handle, and where the file lies. Its parts (LibraryName::parts) are opened before it, from its own folder, and stay.
struct OpenedLibrary {
  void* handle = nullptr;
  std::string path = {}, why = {};
};
enum class Parts { kFirst, kAll };  // the first is what the others and the library itself are made of
// Without a handle where none of that name is in this process.
OpenedLibrary loaded_library(const LibraryName& name);
OpenedLibrary open_library(const LibraryName& name, const std::string& file, Parts parts);

}  // namespace recollect::cuda
