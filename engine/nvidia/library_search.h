// Lists the folders in which NVIDIA's libraries are searched. They follow from the environment, in a fixed
// order, so that the same machine always gives the same library. No other program is run to find out. Folders
// that do not exist are left out, except those that the user names.
#pragma once

#include <string>
#include <vector>

namespace recollect::cuda {

// The parts of the environment that matter. They are separate from the process's own, so that tests can set
// them.
struct SearchEnvironment {
  std::string libraries;    // RECOLLECT_NVIDIA_LIBRARIES: folders, separated by colons
  std::string virtual_env;  // VIRTUAL_ENV
  std::string conda;        // CONDA_PREFIX
  std::string cuda_home;    // CUDA_HOME, else CUDA_PATH
  std::string path;         // PATH
  std::string home;         // HOME
  std::string program;      // the running program's own file
  std::string root;         // stands before every fixed path; "" outside tests

  static SearchEnvironment of_process();
};

struct SearchPlaces {
  std::vector<std::string> first;  // before the loader's own path: RECOLLECT_NVIDIA_LIBRARIES
  std::vector<std::string> then;   // after it: pip's nvidia/*/lib folders, then the CUDA toolkits
};

// pip's folders are those of this program if pip installed it, of VIRTUAL_ENV, of CONDA_PREFIX, of the
// python3 on PATH, of the home folder and of the system. Of several toolkits or versions of Python the newest
// comes first.
SearchPlaces search_places(const SearchEnvironment& environment);

}  // namespace recollect::cuda
