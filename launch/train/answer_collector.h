// The answers to an evaluation set's questions, judged as SQuAD judges them.
#pragma once

#include "launch/train/metric_collector.h"

namespace recollect {

// `samples`: windows of the set that are evaluated, the first ones. A question counts where all of its windows are among
// them. Where the set has questions without an answer, to find none is an answer too, and SQuAD 2.0's rules hold;
// otherwise 1.1's, which know nothing of questions that are not labelled: they do not count.
std::unique_ptr<MetricCollector> make_answer_collector(const QuestionAnsweringSet& questions,
                                                       const AnswerRules& rules, int64_t samples);

}  // namespace recollect
