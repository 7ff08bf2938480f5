// Where an answer starts, and where it ends.
#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/data/tasks/token_data.h"

namespace recollect {

namespace {

FieldSpec position(const TokenInputs& inputs, std::string key, std::string name) {
  FieldSpec spec{.key = std::move(key), .name = std::move(name), .shape = FieldSpec::Shape::kNumbers};
  spec.required = true;
  spec.low = std::numeric_limits<int32_t>::min();
  spec.high = std::numeric_limits<int32_t>::max();
  spec.noun = "position";
  spec.range = "what 32 bits hold";
  spec.random_values = inputs.sequence_length;
  return spec;
}

class QuestionAnsweringCollator final : public TokenCollator {
 public:
  explicit QuestionAnsweringCollator(const TokenInputs& inputs)
      : TokenCollator(
            inputs,
            {.name = "targets", .padding = kIgnoredLabel, .per = BatchField::Per::kSample, .numbers = 2}) {
    require(inputs.sequence_length >= 1, "an answer in a sequence without tokens");
  }

 private:
  // Transformers clamps positions to [0, the batch's length] and ignores the last of these. A sample without positions
  // has nothing that counts.
  TargetCounts add_targets(Fields& sample, int64_t, int64_t length) const override {
    std::vector<int32_t>& targets = sample["targets"];
    targets.clear();
    TargetCounts counts{};
    for (std::size_t column = 0; column < counts.size(); ++column) {
      const std::vector<int32_t>& positions = sample[column == 0 ? "start" : "end"];
      const int64_t given = positions.empty() ? length : positions.front();
      counts[column] = given < length;
      targets.push_back(given >= length ? kIgnoredLabel : static_cast<int32_t>(std::max<int64_t>(given, 0)));
    }
    return counts;
  }
};

}  // namespace

TaskData question_answering_data(const TokenInputs& inputs) {
  return {token_fields(inputs, {position(inputs, "start_positions", "start"),
                                position(inputs, "end_positions", "end")}),
          std::make_unique<QuestionAnsweringCollator>(inputs)};
}

}  // namespace recollect
