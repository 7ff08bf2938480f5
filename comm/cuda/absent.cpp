// Stands in for this folder in a build without CUDA: whoever asks for the backend hears what is missing.
#include "comm/device_world.h"

namespace recollect {

std::unique_ptr<Communicator> make_device_world(Communicator&, const DeviceWorldOptions&) {
  throw Error(ExitCode::kConfiguration, "this recollect was built without its CUDA backend",
              "build it where nvcc is: cmake --preset cuda && cmake --build --preset cuda");
}

}  // namespace recollect
