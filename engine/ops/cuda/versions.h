// What the backend was built with.
#pragma once

#include <string>

namespace recollect::cuda {

// "CUDA 13.0, ..."; "" in a build without the backend. Its libraries are looked for when a run asks for them: which are
// there, `recollect doctor` says.
std::string versions();

}  // namespace recollect::cuda
