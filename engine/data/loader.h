// Feeds a data rank with its part of every global batch. Which sample sits where is arithmetic: the batch of
// step t is samples [t * G, (t + 1) * G) of the run's order, G = micro-batch x accumulation steps x data
// ranks, and micro-batch m of data rank d holds those from (m * data ranks + d) * micro-batch on. So every
// (data ranks, accumulation) with the same product sees the same samples in the same places. A thread reads
// ahead into batches that were allocated once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/order.h"

namespace recollect {

struct LoaderOptions {
  int64_t micro_batch_size = 1;
  int64_t accumulation_steps = 1;
  int64_t data_rank = 0;
  int64_t data_size = 1;
  int64_t start_step = 0;
  int64_t prefetch = 2;  // batches read ahead of the one in use, at least 1

  int64_t global_batch_size() const { return micro_batch_size * accumulation_steps * data_size; }
};

// One data rank's part of one optimizer step.
struct StepBatch {
  int64_t step = 0;
  std::vector<int32_t> ids;            // [accumulation][micro_batch][sequence_length]
  std::vector<int32_t> labels;         // the same; not shifted, kIgnoredLabel where nothing is learnt
  std::vector<int64_t> first_samples;  // [accumulation]: number in the run of each micro-batch's first sample
  std::vector<int64_t> micro_valid_targets;  // [accumulation]
  int64_t valid_targets = 0;                 // pairs (sample, i) with a label at i + 1, which row i predicts

  int64_t first_sample_of(int64_t micro) const { return first_samples[static_cast<std::size_t>(micro)]; }
  const int32_t* ids_of(int64_t micro) const { return ids.data() + offset_of(micro); }
  const int32_t* labels_of(int64_t micro) const { return labels.data() + offset_of(micro); }

 private:
  std::size_t offset_of(int64_t micro) const {
    return ids.size() / first_samples.size() * static_cast<std::size_t>(micro);
  }
};

// Targets of one sequence that count: its labels but the first, without ignored ones.
int64_t count_targets(std::span<const int32_t> labels);

// Fills `batch` for `step`, sizing its vectors if they have another size. What the Loader does ahead of time.
void read_step_batch(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options,
                     int64_t step, StepBatch& batch);

class Loader {
 public:
  // `dataset` must outlive the loader; `order` must be over dataset.size(). Reading starts at once.
  Loader(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batches of start_step, start_step + 1, ...; each is valid until the following call. Waits when
  // reading is behind. Errors: whatever reading that batch threw, now and on every later call.
  const StepBatch& next();

 private:
  void read_ahead();

  const Dataset& dataset_;
  const SampleOrder order_;
  const LoaderOptions options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StepBatch> ring_;  // batch number n (from 0) lies in ring_[n % size]
  int64_t filled_ = 0;           // batches [0, filled_) have been read
  int64_t handed_out_ = 0;  // batches [0, handed_out_) have been returned; the last of them is still in use
  bool stopping_ = false;
  std::exception_ptr error_;  // of batch number filled_
  std::thread thread_;        // last: it uses everything above
};

}  // namespace recollect
