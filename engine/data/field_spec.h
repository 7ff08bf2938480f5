// What a task needs to be told of a sample: its fields, one by one, as they are called and bounded. A line of
// JSONL is read by such a table, and random samples are made by it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/dtype.h"

namespace recollect {

struct FieldSpec {
  enum class Shape {
    kNumbers,    // `size` numbers; where that is one, without brackets too
    kTokens,     // a list with a number for each token
    kTokenLists  // `size` such lists, for as many sequences
  };

  std::string key;   // in a file: what Transformers calls the argument of its models
  std::string name;  // in a sample
  Shape shape = Shape::kTokens;
  int64_t size = 1;
  DType dtype = DType::kI32;  // or kF32
  bool required = false;
  bool may_be_ignored = false;          // kIgnoredLabel is admitted beside what lies between the bounds
  bool is_class = false;                // 1.0 and true stand for 1, 0.0 and false for 0
  bool ignored_behind_padding = false;  // behind a mask's first 0 all are kIgnoredLabel
  bool is_mask = false;                 // the bounds are 0 and 1, and no 1 stands behind a 0
  double low = 0, high = 0;             // the bounds, both of them admitted
  std::string noun = {}, range = {};    // of a message: NOUN 7 is outside RANGE
  int64_t random_values = 0;            // in random data: 0, 1, ... below this
};

}  // namespace recollect
