#include "launch/config/check_division.h"

#include <fmt/format.h>

namespace recollect {
namespace {

void check_sequence_parallel(const Config& config, std::vector<Finding>& found) {
  const int64_t tensor = config.parallelism.tensor_parallel_size;
  if (!config.parallelism.sequence_parallel || tensor == 1) return;
  const int64_t choices = config.task == Task::kMultipleChoice ? config.data.choices : 1,
                tokens = config.training.micro_batch_size * choices * config.data.sequence_length;
  const int64_t parts = config.parallelism.overlap_halves ? 2 * tensor : tensor;
  if (tokens % parts == 0) return;
  found.push_back(
      {{"parallelism.sequence_parallel", "parallelism.tensor_parallel_size", "parallelism.overlap_halves",
        "training.micro_batch_size", "data.sequence_length", "model." + config.model.facts().longest.key},
       fmt::format("sequence parallelism divides the tokens of a micro-batch, {} x {} = {}, by {}"
                   "parallelism.tensor_parallel_size {}, which does not divide them",
                   config.training.micro_batch_size, config.data.sequence_length, tokens,
                   config.parallelism.overlap_halves ? "the 2 of parallelism.overlap_halves times " : "",
                   tensor)});
}

void check_halves(const Config& config, std::vector<Finding>& found) {
  if (!config.parallelism.overlap_halves || config.parallelism.tensor_parallel_size == 1) return;
  if (config.training.micro_batch_size % 2 != 0)
    found.push_back({{"parallelism.overlap_halves", "training.micro_batch_size"},
                     fmt::format("parallelism.overlap_halves divides a micro-batch by 2, and "
                                 "training.micro_batch_size is {}",
                                 config.training.micro_batch_size)});
}

}  // namespace

void check_division(const Config& config, std::vector<Finding>& found) {
  check_sequence_parallel(config, found);
  check_halves(config, found);
}

}  // namespace recollect
