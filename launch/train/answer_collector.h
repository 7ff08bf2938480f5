// Collects the answers to the questions of an evaluation set and scores them by SQuAD's rules.
#pragma once

#include "launch/train/metric_collector.h"

namespace recollect {

// `samples` is the number of windows to evaluate, from the beginning of the set. A question counts if all of
// its windows are among them. If the set has questions without an answer, SQuAD 2.0's rules apply and "no
// answer" can be correct. Otherwise 1.1's rules apply, and questions without a label do not count.
std::unique_ptr<MetricCollector> make_answer_collector(const QuestionAnsweringSet& questions,
                                                       const AnswerRules& rules, int64_t samples);

}  // namespace recollect
