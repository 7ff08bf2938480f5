// Samples that were prepared from a file and are held in memory: one array of 32-bit words, and where in it each field
// of each sample ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/data/dataset.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

class PackedSamples final : public Dataset {
 public:
  struct Part {
    std::string name;
    DType dtype = DType::kI32;
  };
  PackedSamples(std::vector<Part> parts, int64_t sequence_length);

  void append(const Fields& sample);  // its fields of those names
  void append(const PackedSamples& behind);

  int64_t size() const override;
  int64_t sequence_length() const override { return sequence_length_; }
  void read(int64_t index, Fields& sample) const override;
  std::size_t bytes() const;  // of the words and of the index

 private:
  std::vector<Part> parts_;
  int64_t sequence_length_;
  std::vector<int32_t> words_;
  std::vector<std::size_t> ends_;  // in words_, part by part
};

// Samples 0 to `rows`, as `make(row, memory, sample)` fills an empty one, by as many threads: the result does not depend
// on their number, and neither does the error, which is that of the first row that has one.
using MakeSample = std::function<void(std::size_t row, EncodingMemory& memory, Fields& sample)>;
PackedSamples prepare_samples(std::size_t rows, int threads, const PackedSamples& empty,
                              const MakeSample& make);

}  // namespace recollect
