// Where NVIDIA's libraries are looked for: what the environment names, in a fixed order, so that the same
// machine always gives the same library. Nothing is run to find out. Folders that do not exist are left out,
// but not those that the user names.
#pragma once

#include <string>
#include <vector>

namespace recollect::cuda {

// What of the environment decides. Separate from the process's own, so that tests can state it.
struct SearchEnvironment {
  std::string libraries;    // RECOLLECT_NVIDIA_LIBRARIES: folders, separated by colons
  std::string virtual_env;  // VIRTUAL_ENV
  std::string conda;        // CONDA_PREFIX
  std::string cuda_home;    // CUDA_HOME, else CUDA_PATH
  std::string path;         // PATH
  std::string home;         // HOME
  std::string program;      // the running program's own file
  std::string root;         // before every fixed place: "" outside of tests

  static SearchEnvironment of_process();
};

struct SearchPlaces {
  std::vector<std::string> first;  // before the loader's own path: RECOLLECT_NVIDIA_LIBRARIES
  std::vector<std::string> then;   // after it: pip's nvidia/*/lib folders, then the CUDA toolkits
};

// pip's folders: that of a program that pip has installed, those of VIRTUAL_ENV, CONDA_PREFIX, the python3 on PATH, the home folder, the system. Of
// several toolkits or versions of Python the newest comes first.
SearchPlaces search_places(const SearchEnvironment& environment);

}  // namespace recollect::cuda
