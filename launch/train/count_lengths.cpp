#include "launch/train/count_lengths.h"

#include <algorithm>
#include <vector>

#include "engine/data/loader.h"
#include "launch/program/task.h"
#include "launch/train/loader_options.h"
#include "launch/train/open_data.h"

namespace recollect {

LengthCounts count_lengths(const Config& config) {
  const TaskData task = task_data(config);
  const OpenedData data = open_training_data(config, task);
  const int64_t samples = data.dataset->size(),
                ranks = std::max<int64_t>(1, config.parallelism.data_parallel_size);
  const SampleOrder order(samples, static_cast<uint64_t>(config.data.seed), config.data.shuffle);
  const LoaderOptions options = loader_options(config, 0, ranks);
  const int64_t batch = options.global_batch_size();
  std::vector<std::vector<int64_t>> longest((samples + batch - 1) / batch,
                                            std::vector<int64_t>(options.accumulation_steps, 0));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    BatchReader reader(*data.dataset, *task.collator, order, loader_options(config, rank, ranks));
    StepBatch read;
    for (std::size_t step = 0; step < longest.size(); ++step) {
      reader.read(static_cast<int64_t>(step), read);
      for (std::size_t m = 0; m < read.micro_batches.size(); ++m)
        longest[step][m] = std::max(longest[step][m], read.micro_batches[m].length);
    }
  }
  LengthCounts counts;
  for (const std::vector<int64_t>& step : longest)
    for (const int64_t length : step) ++counts[length];
  return counts;
}

}  // namespace recollect
