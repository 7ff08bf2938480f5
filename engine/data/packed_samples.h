// Samples that were prepared from files and are held in memory: the bytes of their numbers, as narrow as these allow, and
// where among them each field of each sample ends, or each list of a field that is a list of lists. They lie in blocks, so
// that what several threads have made is put together without being copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/data/bad_records.h"
#include "engine/data/dataset.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

class PackedSamples final : public Dataset {
 public:
  struct Part {
    std::string name;
    DType dtype = DType::kI32;
    std::size_t lists = 0;  // 0: one list; otherwise a list of so many lists
    std::size_t width = 4;  // bytes of a number; of less than four, numbers from 0 on that fit
  };
  // One of the parts is called "ids".
  PackedSamples(std::vector<Part> parts, int64_t sequence_length);

  // Its fields of those names, of which a list of lists has as many as its part says.
  void append(const Fields& sample);
  void append(PackedSamples behind);
  void shrink();  // to the memory that it needs

  int64_t size() const override;
  int64_t sequence_length() const override { return sequence_length_; }
  int64_t length(int64_t index) const override;
  void read(int64_t index, Fields& sample) const override;
  std::size_t bytes() const;  // of the numbers and of the index

 private:
  struct Block {
    int64_t behind = 0;  // samples in it and in those before
    std::vector<std::byte> bytes = {};
    std::vector<uint32_t> ends = {};  // in bytes, list by list

    std::size_t begin_of(std::size_t end) const { return end == 0 ? 0 : ends[end - 1]; }
  };
  // The block of a sample, and the place of its first end there.
  std::pair<const Block*, std::size_t> find(int64_t index) const;

  std::vector<Part> parts_;
  std::size_t lists_ = 0;  // of a sample, in all parts
  int64_t sequence_length_;
  std::vector<std::size_t> most_numbers_;  // that a sample has, by part
  std::vector<Block> blocks_;
};

// Samples 0 to `rows`, as `make(row, memory, sample)` fills an empty one, by as many threads: the result does not depend
// on their number, and neither does the error, which is that of the first row that has one. Rows whose error `bad` passes
// over are left out; their numbers are behind what `left_out` has.
using MakeSample = std::function<void(std::size_t row, EncodingMemory& memory, Fields& sample)>;
PackedSamples prepare_samples(std::size_t rows, int threads, const PackedSamples& empty,
                              const MakeSample& make, BadRecords& bad,
                              std::vector<std::size_t>* left_out = nullptr);

}  // namespace recollect
