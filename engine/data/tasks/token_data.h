// What the tasks share: the fields of tokens, and a collator for models that attend the first tokens of a
// row.
#pragma once

#include <string>
#include <vector>

#include "engine/data/tasks.h"

namespace recollect {

// input_ids, and what may stand beside them: token_type_ids where the model has token types, attention_mask.
// lists > 0: lists of lists, so many. Then `more`, as they are.
std::vector<FieldSpec> token_fields(const TokenInputs& inputs, const std::vector<FieldSpec>& more,
                                    int64_t lists = 0);
FieldSpec input_ids(const TokenInputs& inputs);
FieldSpec attention_mask();  // ones and then zeros
// A label for each token, an id of the vocabulary, which may be left out.
FieldSpec id_labels(const TokenInputs& inputs);
// One for each sample, or each token, of [0, values), or ignored. `what` there are so many of.
FieldSpec class_labels(int64_t values, FieldSpec::Shape shape, const std::string& what);

int64_t count_targets(const std::vector<int32_t>& targets);

// Of packed samples: each token's place in its document, -1 for padding.
inline Collator::BatchField positions_field() { return {.name = "positions", .padding = -1}; }

// Adds "lengths", which packed samples need not have; the task adds "targets".
class TokenCollator : public Collator {
 public:
  TokenCollator(const TokenInputs& inputs, BatchField targets, int64_t rows = 1);

  const std::vector<BatchField>& fields() const final { return fields_; }
  int64_t rows() const final { return rows_; }
  TargetCounts prepare(Fields& sample, int64_t number, int64_t length) const final;

 protected:
  // The labels as they are, unless the task has another idea.
  virtual TargetCounts add_targets(Fields& sample, int64_t number, int64_t length) const;

 private:
  std::vector<BatchField> fields_;
  int64_t rows_;
};

}  // namespace recollect
