// Feeds a data rank with its part of every global batch. Which sample sits where is arithmetic: the batch of
// step t is samples [t * G, (t + 1) * G) of the run's order, G = micro-batch x accumulation steps x data
// ranks, and micro-batch m of data rank d holds those from (m * data ranks + d) * micro-batch on. So every
// (data ranks, accumulation) with the same product sees the same samples in the same places. What a sample
// looks like in a batch is its collator's business. A thread reads ahead into batches that are allocated
// once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/data/collator.h"
#include "engine/data/dataset.h"
#include "engine/data/grouped_order.h"

namespace recollect {

struct LoaderOptions {
  int64_t micro_batch_size = 1;
  int64_t accumulation_steps = 1;
  int64_t data_rank = 0;
  int64_t data_size = 1;
  int64_t start_step = 0;
  int64_t prefetch = 2;  // batches read ahead of the one in use, at least 1
  // Sequences of a micro-batch are padded to the next multiple of this that holds its longest, but not beyond
  // the dataset's sequence length. 0: always to that.
  int64_t pad_to_multiple_of = 0;
  // Samples of like length come together (GroupedOrder), within so many of an epoch. 0: they do not.
  int64_t group_window = 0;
  // Steps after which the first sample follows again; where the dataset ends within them, padding follows.
  // 0: one epoch follows the other.
  int64_t cycle = 0;

  int64_t global_batch_size() const { return micro_batch_size * accumulation_steps * data_size; }
};

// Tokens of the sequences of a micro-batch whose longest has `longest`; `multiple` as pad_to_multiple_of.
int64_t padded_length(int64_t longest, int64_t multiple, int64_t most);

struct MicroBatch {
  int64_t first_sample = 0;           // number in the run, or in the cycle
  int64_t samples = 0;                // read from the dataset; what is missing to micro_batch_size is padding
  int64_t length = 0;                 // tokens of each of its sequences, padding included
  std::vector<int64_t> indices = {};  // of its samples, in the dataset
  Fields fields = {};                 // those of the collator, sample behind sample
};

// One data rank's part of one optimizer step.
struct StepBatch {
  int64_t step = 0;
  std::vector<MicroBatch> micro_batches = {};  // [accumulation_steps]
  TargetCounts valid_targets = {};             // that count in the loss
};

// Reads the batch of any step. Allocates nothing in a batch that it has filled before.
class BatchReader {
 public:
  // `dataset` and `collator` must outlive the reader; `order` must be over dataset.size().
  BatchReader(const Dataset& dataset, const Collator& collator, const SampleOrder& order,
              const LoaderOptions& options);
  void read(int64_t step, StepBatch& batch);

 private:
  int64_t read_samples(MicroBatch& micro);
  void collate(int64_t place, MicroBatch& micro, TargetCounts& valid);
  void copy(const Collator::BatchField& field, const Field& from, std::span<int32_t> into) const;

  const Dataset& dataset_;
  const Collator& collator_;
  GroupedOrder order_;
  const LoaderOptions options_;
  std::vector<Fields> samples_;  // of the micro-batch that is being read
};

class Loader {
 public:
  // As BatchReader's. Reading starts at once.
  Loader(const Dataset& dataset, const Collator& collator, const SampleOrder& order,
         const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batches of start_step, start_step + 1, ...; each is valid until the following call. Waits when
  // reading is behind. Errors: whatever reading that batch threw, now and on every later call.
  const StepBatch& next();

 private:
  void read_ahead();

  BatchReader reader_;
  const int64_t start_step_;

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
