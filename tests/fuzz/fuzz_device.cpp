// A file of device rates.
#include <cmath>

#include "checkpointing/device_file.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  const std::string path = folder.write("device.yaml", text);
  fuzz::accepts([&] {
    const DeviceModel device = read_device_model(path);
    fuzz::expect(std::isfinite(1 / device.memory_bandwidth), "a rate that makes times infinite");
  });
}
