// The versions of CUDA and its libraries that this build was compiled with.
#pragma once

#include <string>

namespace recollect::cuda {

// "CUDA 13.0, ..."; "" in a build without CUDA. The libraries are opened only when a run needs them;
// `recollect doctor` says which are installed.
std::string versions();

}  // namespace recollect::cuda
