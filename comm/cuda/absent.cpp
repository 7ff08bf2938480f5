// Replaces this folder in a build without CUDA. Every use of the backend throws an Error that says what is
// missing.
#include "comm/device_world.h"

namespace recollect {

std::unique_ptr<Communicator> make_device_world(Communicator&, const DeviceWorldOptions&) {
  throw Error(ExitCode::kConfiguration, "this recollect was built without its CUDA backend",
              "build it where nvcc is: cmake --preset cuda && cmake --build --preset cuda");
}

}  // namespace recollect
