// What a task makes of the samples of a dataset: the fields that its model reads, and how a sample that is
// shorter than its batch is padded. This is where a task's view of the data lives; a model and its loss take
// what they are given.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/fields.h"

namespace recollect {

class Collator {
 public:
  struct BatchField {
    std::string name;     // an input of the model, [samples, length]
    int32_t padding = 0;  // where a sample ends before its batch does, and of samples that are all padding
  };

  virtual ~Collator() = default;

  virtual const std::vector<BatchField>& fields() const = 0;
  // Adds the batch's fields to a sample as its dataset has read it; allocates nothing when `sample` has had
  // all of them at this length. Returns how many of its targets count in the loss.
  virtual int64_t prepare(Fields& sample) const = 0;
};

// Causal language modelling: "ids", and "targets", which are what each position is to predict: the label of
// the position behind it, kIgnoredLabel at the end. A sample without "labels" learns its own ids.
std::unique_ptr<Collator> causal_lm_collator();

}  // namespace recollect
