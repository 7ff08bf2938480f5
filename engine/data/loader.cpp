#include "engine/data/loader.h"

#include <algorithm>

#include "engine/core/error.h"

namespace recollect {
namespace {

void size_batch(StepBatch& batch, const Dataset& dataset, const LoaderOptions& options) {
  const auto micros = static_cast<std::size_t>(options.accumulation_steps);
  const std::size_t tokens =
      micros * static_cast<std::size_t>(options.micro_batch_size * dataset.sequence_length());
  batch.ids.resize(tokens);
  batch.labels.resize(tokens);
  batch.first_samples.resize(micros);
  batch.micro_valid_targets.resize(micros);
}

}  // namespace

int64_t count_targets(std::span<const int32_t> labels) {
  return static_cast<int64_t>(labels.size()) - 1 -
         std::count(labels.begin() + 1, labels.end(), kIgnoredLabel);
}

void read_step_batch(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options,
                     int64_t step, StepBatch& batch) {
  size_batch(batch, dataset, options);
  const auto length = static_cast<std::size_t>(dataset.sequence_length());
  batch.step = step;
  batch.valid_targets = 0;
  std::size_t at = 0;
  for (int64_t micro = 0; micro < options.accumulation_steps; ++micro) {
    const int64_t place = (micro * options.data_size + options.data_rank) * options.micro_batch_size;
    const int64_t first = step * options.global_batch_size() + place;
    int64_t targets = 0;
    for (int64_t i = 0; i < options.micro_batch_size; ++i, at += length) {
      const std::span<int32_t> ids(batch.ids.data() + at, length), labels(batch.labels.data() + at, length);
      dataset.read(order.at(first + i), ids, labels);
      targets += count_targets(labels);
    }
    batch.first_samples[static_cast<std::size_t>(micro)] = first;
    batch.micro_valid_targets[static_cast<std::size_t>(micro)] = targets;
    batch.valid_targets += targets;
  }
}

Loader::Loader(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options)
    : dataset_(dataset), order_(order), options_(options) {
  require(order.size() == dataset.size(),
          "the sample order is over another number of sequences than the dataset");
  require(options.micro_batch_size >= 1 && options.accumulation_steps >= 1 && options.start_step >= 0 &&
              options.prefetch >= 1 && options.data_rank >= 0 && options.data_rank < options.data_size,
          "loader options out of range");
  ring_.resize(static_cast<std::size_t>(options.prefetch) + 1);  // and one in the step's hands
  for (StepBatch& batch : ring_) size_batch(batch, dataset, options);
  thread_ = std::thread([this] { read_ahead(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::read_ahead() {
  const auto capacity = static_cast<int64_t>(ring_.size());
  std::unique_lock lock(mutex_);
  while (true) {
    // The batch that was returned last stays untouched.
    changed_.wait(lock,
                  [&] { return stopping_ || filled_ - std::max<int64_t>(handed_out_ - 1, 0) < capacity; });
    if (stopping_) return;
    const int64_t number = filled_;
    lock.unlock();
    std::exception_ptr error;
    try {
      read_step_batch(dataset_, order_, options_, options_.start_step + number,
                      ring_[static_cast<std::size_t>(number % capacity)]);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) ++filled_;
    changed_.notify_all();
    if (error) return;
  }
}

const StepBatch& Loader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return filled_ > handed_out_ || error_; });
  if (filled_ == handed_out_) std::rethrow_exception(error_);
  const auto slot = static_cast<std::size_t>(handed_out_++ % static_cast<int64_t>(ring_.size()));
  changed_.notify_all();
  return ring_[slot];
}

}  // namespace recollect
