#include "launch/config/check_division.h"

#include <fmt/format.h>

namespace recollect {
namespace {

bool takes_turns(const Config& config) {
  return config.parallelism.overlap_halves && config.parallelism.tensor_parallel_size > 1 &&
         config.training.max_steps > 0;
}

void check_sequence_parallel(const Config& config, std::vector<Finding>& found) {
  const int64_t tensor = config.parallelism.tensor_parallel_size, halves = takes_turns(config) ? 2 : 1;
  if (!config.parallelism.sequence_parallel || tensor == 1) return;
  const int64_t choices = config.task == Task::kMultipleChoice ? config.data.choices : 1,
                tokens = config.training.micro_batch_size * choices * config.data.sequence_length;
  if (tokens % (halves * tensor) == 0) return;
  std::vector<std::string> keys = {"parallelism.sequence_parallel", "parallelism.tensor_parallel_size",
                                   "training.micro_batch_size", "data.sequence_length",
                                   "model." + config.model.facts().longest.key};
  if (halves > 1) keys.insert(keys.begin() + 2, "parallelism.overlap_halves");
  found.push_back(
      {keys, fmt::format(
                 "sequence parallelism divides the tokens of {}, {} x {}{} = {}, by "
                 "parallelism.tensor_parallel_size {}, which does not divide them",
                 halves > 1 ? "each half of a micro-batch (parallelism.overlap_halves)" : "a micro-batch",
                 config.training.micro_batch_size / halves, choices > 1 ? fmt::format("{} x ", choices) : "",
                 config.data.sequence_length, tokens / halves, tensor)});
}

void check_halves(const Config& config, std::vector<Finding>& found) {
  const int64_t samples = config.training.micro_batch_size;
  if (!takes_turns(config) || samples % 2 == 0) return;
  found.push_back(
      {{"parallelism.overlap_halves", "training.micro_batch_size"},
       fmt::format(
           "parallelism.overlap_halves divides a micro-batch by 2, and training.micro_batch_size is {}",
           samples)});
}

}  // namespace

void check_division(const Config& config, std::vector<Finding>& found) {
  check_sequence_parallel(config, found);
  check_halves(config, found);
}

}  // namespace recollect
