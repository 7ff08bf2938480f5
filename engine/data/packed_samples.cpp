#include "engine/data/packed_samples.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "engine/core/error.h"

namespace recollect {

PackedSamples::PackedSamples(std::vector<Part> parts, int64_t sequence_length)
    : parts_(std::move(parts)), sequence_length_(sequence_length) {
  require(!parts_.empty(), "samples without fields");
}

void PackedSamples::append(const Fields& sample) {
  for (const Part& part : parts_) {
    const auto field =
        std::find_if(sample.begin(), sample.end(), [&](const Field& one) { return one.name == part.name; });
    require(field != sample.end() && field->ends.empty(), "a sample lacks a field, or has it as lists");
    words_.insert(words_.end(), field->values.begin(), field->values.end());
    ends_.push_back(words_.size());
  }
}

void PackedSamples::append(const PackedSamples& behind) {
  const std::size_t before = words_.size();
  words_.insert(words_.end(), behind.words_.begin(), behind.words_.end());
  for (const std::size_t end : behind.ends_) ends_.push_back(before + end);
}

int64_t PackedSamples::size() const { return static_cast<int64_t>(ends_.size() / parts_.size()); }

std::size_t PackedSamples::bytes() const {
  return words_.size() * sizeof(words_[0]) + ends_.size() * sizeof(ends_[0]);
}

void PackedSamples::read(int64_t index, Fields& sample) const {
  require(index >= 0 && index < size(), "sample index out of range");
  std::size_t at = static_cast<std::size_t>(index) * parts_.size();
  for (const Part& part : parts_) {
    Field& field = sample.field(part.name);
    field.dtype = part.dtype;
    const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
    field.values.assign(words_.begin() + static_cast<std::ptrdiff_t>(begin),
                        words_.begin() + static_cast<std::ptrdiff_t>(ends_[at]));
    ++at;
  }
}

// Threads take blocks of rows in order, so that all blocks before one that fails have been taken, and are finished.
PackedSamples prepare_samples(std::size_t rows, int threads, const PackedSamples& empty,
                              const MakeSample& make) {
  constexpr std::size_t kRowsOfABlock = 256;
  const std::size_t blocks = (rows + kRowsOfABlock - 1) / kRowsOfABlock;
  std::vector<PackedSamples> results(blocks, empty);
  std::vector<std::exception_ptr> errors(blocks);
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    EncodingMemory memory;
    Fields sample;
    while (!failed) {
      const std::size_t block = next++;
      if (block >= blocks) return;
      try {
        for (std::size_t row = block * kRowsOfABlock; row < std::min(rows, (block + 1) * kRowsOfABlock);
             ++row) {
          sample.clear();
          make(row, memory, sample);
          results[block].append(sample);
        }
      } catch (...) {
        errors[block] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  PackedSamples all = empty;
  for (PackedSamples& result : results) {
    all.append(result);
    result = empty;
  }
  return all;
}

}  // namespace recollect
