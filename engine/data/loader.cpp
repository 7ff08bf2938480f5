#include "engine/data/loader.h"

#include <algorithm>

#include "engine/core/error.h"

namespace recollect {

int64_t padded_length(int64_t longest, int64_t multiple, int64_t most) {
  if (multiple == 0) return most;
  return std::min(most, std::max<int64_t>(1, (longest + multiple - 1) / multiple) * multiple);
}

BatchReader::BatchReader(const Dataset& dataset, const Collator& collator, const SampleOrder& order,
                         const LoaderOptions& options)
    : dataset_(dataset),
      collator_(collator),
      order_(order, dataset, options.group_window),
      options_(options),
      samples_(static_cast<std::size_t>(options.micro_batch_size)) {
  require(order.size() == dataset.size(),
          "the sample order is over another number of sequences than the dataset");
  require(options.micro_batch_size >= 1 && options.accumulation_steps >= 1 && options.start_step >= 0 &&
              options.prefetch >= 1 && options.data_rank >= 0 && options.data_rank < options.data_size &&
              options.cycle >= 0 && options.pad_to_multiple_of >= 0 && options.group_window >= 0,
          "loader options out of range");
  for (Fields& sample : samples_)
    for (const Collator::BatchField& field : collator.fields())
      sample[field.name].reserve(static_cast<std::size_t>(collator.words(field, dataset.sequence_length())));
}

void BatchReader::read(int64_t step, StepBatch& batch) {
  const int64_t micro_batch_size = options_.micro_batch_size, most = dataset_.sequence_length();
  batch.step = step;
  batch.valid_targets = {};
  batch.micro_batches.resize(static_cast<std::size_t>(options_.accumulation_steps));
  int64_t first = (options_.cycle > 0 ? step % options_.cycle : step) * options_.global_batch_size() +
                  options_.data_rank * micro_batch_size;
  for (MicroBatch& micro : batch.micro_batches) {
    const int64_t left = options_.cycle > 0 ? dataset_.size() - first : micro_batch_size;
    micro.first_sample = first;
    micro.samples = std::clamp<int64_t>(left, 0, micro_batch_size);
    micro.length = padded_length(read_samples(micro), options_.pad_to_multiple_of, most);
    for (const Collator::BatchField& field : collator_.fields()) {
      Field& whole = micro.fields.field(field.name);
      whole.dtype = field.dtype;
      whole.values.reserve(static_cast<std::size_t>(micro_batch_size * collator_.words(field, most)));
      whole.values.assign(static_cast<std::size_t>(micro_batch_size * collator_.words(field, micro.length)),
                          field.padding);
    }
    for (int64_t place = 0; place < micro.samples; ++place) collate(place, micro, batch.valid_targets);
    first += options_.data_size * micro_batch_size;
  }
}

// Returns how many tokens the longest sequence has.
int64_t BatchReader::read_samples(MicroBatch& micro) {
  int64_t longest = 0;
  micro.indices.resize(static_cast<std::size_t>(options_.micro_batch_size));
  micro.indices.resize(static_cast<std::size_t>(micro.samples));
  for (int64_t place = 0; place < micro.samples; ++place) {
    Fields& sample = samples_[static_cast<std::size_t>(place)];
    sample.clear();
    const int64_t index = micro.indices[static_cast<std::size_t>(place)] =
        order_.at(micro.first_sample + place);
    dataset_.read(index, sample);
    longest = std::max(longest, sample.longest());
  }
  return longest;
}

void BatchReader::collate(int64_t place, MicroBatch& micro, TargetCounts& valid) {
  Fields& sample = samples_[static_cast<std::size_t>(place)];
  const TargetCounts counts = collator_.prepare(sample, micro.first_sample + place, micro.length);
  for (std::size_t column = 0; column < counts.size(); ++column) valid[column] += counts[column];
  for (const Collator::BatchField& field : collator_.fields()) {
    const int64_t words = collator_.words(field, micro.length);
    const std::span<int32_t> into(micro.fields[field.name]);
    copy(field, sample.field(field.name),
         into.subspan(static_cast<std::size_t>(place * words), static_cast<std::size_t>(words)));
  }
}

void BatchReader::copy(const Collator::BatchField& field, const Field& from, std::span<int32_t> into) const {
  if (from.values.empty()) return;
  require(from.dtype == field.dtype, "a sample has another type than its batch");
  if (field.per != Collator::BatchField::Per::kToken) {
    require(from.values.size() == into.size(),
            "a sample has more or fewer numbers than its batch has room for");
    std::copy(from.values.begin(), from.values.end(), into.begin());
    return;
  }
  const std::size_t rows = static_cast<std::size_t>(collator_.rows()), length = into.size() / rows;
  require(from.rows() == rows, "a sample has more or fewer sequences than its batch has room for");
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const int32_t> values = from.row(row);
    require(values.size() <= length, "a sample is longer than its batch");
    std::copy(values.begin(), values.end(), into.begin() + static_cast<std::ptrdiff_t>(row * length));
  }
}

Loader::Loader(const Dataset& dataset, const Collator& collator, const SampleOrder& order,
               const LoaderOptions& options)
    : reader_(dataset, collator, order, options), start_step_(options.start_step) {
  ring_.resize(static_cast<std::size_t>(options.prefetch) + 1);  // and one in the step's hands
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
      reader_.read(start_step_ + number, ring_[static_cast<std::size_t>(number % capacity)]);
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
