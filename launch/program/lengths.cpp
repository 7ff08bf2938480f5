#include "launch/program/lengths.h"

#include "launch/program/task.h"

namespace recollect {

// Every chunk of logits reads and writes the head's whole gradient, which a GPU notices: larger ones there.
BatchShape batch_shape(const Config& config) {
  const bool gpu = config.device.backend == BackendKind::kCuda;
  return {.samples = config.training.micro_batch_size * task_settings(config).choices,
          .sequence_length = config.data.sequence_length,
          .most_logits = gpu ? 4096 : 1024};
}

std::vector<BatchShape> all_batch_shapes(const Config& config) {
  std::vector<BatchShape> shapes{batch_shape(config)};
  const int64_t multiple = length_multiple(config), most = config.data.sequence_length;
  if (multiple == 0) return shapes;
  for (int64_t length = (most - 1) / multiple * multiple; length > 0; length -= multiple) {
    shapes.push_back(shapes.front());
    shapes.back().sequence_length = length;
  }
  return shapes;
}

}  // namespace recollect
