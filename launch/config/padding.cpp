#include "launch/config/padding.h"

#include <algorithm>
#include <numeric>

namespace recollect {

int64_t length_multiple(const Config& config) {
  const int64_t given = config.data.pad_to_multiple_of;
  if (config.data.padding == Padding::kMax) return 0;
  if (!config.parallelism.sequence_parallel) return given;
  const int64_t choices = config.task == Task::kMultipleChoice ? config.data.choices : 1,
                samples = config.training.micro_batch_size * choices,
                parts = config.parallelism.tensor_parallel_size * config.parallelism.halves();
  return std::lcm(given, parts / std::gcd(parts, samples));
}

int64_t number_of_lengths(const Config& config) {
  const int64_t multiple = length_multiple(config);
  return multiple == 0 ? 1 : 1 + (config.data.sequence_length - 1) / multiple;
}

int64_t default_multiple(const Config& config) {
  const int64_t unit = config.data.padding == Padding::kBucket ? 64 : 8, most = most_lengths(config),
                enough = (config.data.sequence_length + most - 1) / most;
  return std::min((std::max(enough, unit) + unit - 1) / unit * unit, kLargestMultiple);
}

// The rest of a model, embeddings, head and loss, takes as long as some layers do, and each layer of a deep one longer.
int64_t most_lengths(const Config& config) {
  constexpr int64_t kMost = 6144, kRest = 2, kDepth = 3;
  const int64_t layers = config.model.facts().layers.value;
  return std::max<int64_t>(1, (kMost - kDepth * layers) / (layers + kRest));
}

}  // namespace recollect
