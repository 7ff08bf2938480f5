// The options by which the data of a run is divided into batches.
#pragma once

#include "engine/data/loader.h"
#include "launch/config/config.h"
#include "launch/config/padding.h"

namespace recollect {

inline LoaderOptions loader_options(const Config& config, int64_t data_rank, int64_t data_size) {
  constexpr int64_t kGroupedBatches = 50;  // as many as Transformers sorts at a time
  return {
      .micro_batch_size = config.training.micro_batch_size,
      .accumulation_steps = config.training.gradient_accumulation_steps,
      .data_rank = data_rank,
      .data_size = data_size,
      .prefetch = config.data.prefetch,
      .pad_to_multiple_of = length_multiple(config),
      .group_window = config.data.group_by_length ? kGroupedBatches * config.training.global_batch_size : 0};
}

}  // namespace recollect
