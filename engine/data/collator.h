// What a task makes of the samples of a dataset: the fields that its model reads, and how a sample that is
// shorter than its batch is padded. This is where a task's view of the data lives; a model and its loss take
// what they are given.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/fields.h"

namespace recollect {

// How many targets count in the loss, by column. Most tasks have one column; question answering has two,
// where answers start and where they end.
using TargetCounts = std::array<int64_t, 2>;

// What each target of a column weighs in a loss.
using TargetWeights = std::array<double, std::tuple_size_v<TargetCounts>>;

inline int64_t total(const TargetCounts& counts) { return counts[0] + counts[1]; }

class Collator {
 public:
  // An input of the model.
  struct BatchField {
    enum class Per { kToken, kRow, kSample };

    std::string name;
    int32_t padding = 0;  // where a sample ends before its batch does, and of samples that are all padding
    Per per = Per::kToken;
    int64_t numbers = 1;  // of each
    DType dtype = DType::kI32;
  };

  virtual ~Collator() = default;

  virtual const std::vector<BatchField>& fields() const = 0;
  // Sequences of a sample: 1 but for multiple choice.
  virtual int64_t rows() const { return 1; }
  // Adds the batch's fields to a sample as its dataset has read it; allocates nothing when `sample` has had
  // all of them at this length. `number` is the sample's in the run, from which all that is random follows;
  // `length`: tokens of a sequence in its batch. Returns how many of its targets count in the loss.
  virtual TargetCounts prepare(Fields& sample, int64_t number, int64_t length) const = 0;

  // Of a sample in a batch whose sequences have `length` tokens.
  int64_t words(const BatchField& field, int64_t length) const {
    if (field.per == BatchField::Per::kSample) return field.numbers;
    return rows() * field.numbers * (field.per == BatchField::Per::kToken ? length : 1);
  }
};

}  // namespace recollect
