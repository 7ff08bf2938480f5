// From an evaluation's logits to its metrics. What a metric needs of a sample is kept under the sample's number in the set:
// counts add up over the data ranks, and numbers come together as sums to which every rank but one adds zeros. So no bit
// of a metric depends on who has seen which sample, or in which batch. Samples that are padding are never looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/data/loader.h"
#include "engine/data/questions.h"
#include "parallel/tasks/answers.h"
#include "parallel/tasks/metrics.h"

namespace recollect {

// What is known of an evaluation set beyond its samples, where it was prepared from texts.
struct EvaluationSource {
  std::vector<std::string> labels = {};             // what the classes are called
  const QuestionAnsweringSet* questions = nullptr;  // whose windows the samples are; outlives the evaluation
  AnswerRules answers = {};                         // `may_be_absent` follows from the questions

  KnownOfSet known() const { return {.label_names = !labels.empty(), .answers = questions != nullptr}; }
};

class MetricCollector {
 public:
  virtual ~MetricCollector() = default;

  virtual void clear() = 0;
  // `logits`: of the whole micro-batch, padding included.
  virtual void add(const MicroBatch& micro, std::span<const double> logits) = 0;
  // Collective over the data ranks, when all have added theirs.
  virtual void reduce(Communicator& replicas) = 0;
  // After reduce(): what is reported of one that fits the task.
  virtual void report(MetricKind metric, MetricList& list) = 0;
};

// Of a task whose logits exist. `samples`: of the set, so many of which are evaluated.
std::unique_ptr<MetricCollector> make_metric_collector(const TaskSettings& task,
                                                       const EvaluationSource& source, int64_t samples);

}  // namespace recollect
