// Computes the metrics of an evaluation from its logits. The data of a sample is stored under its number in
// the set. Counts are summed over the data ranks; numbers are also combined by sums, in which every rank but
// one adds zeros. So no bit of a metric depends on the rank or batch of a sample. Padding samples are
// ignored.
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

// Facts about an evaluation set besides its samples, if it was prepared from texts.
struct EvaluationSource {
  std::vector<std::string> labels = {};             // names of the classes
  const QuestionAnsweringSet* questions = nullptr;  // source of the samples; outlives the evaluation
  AnswerRules answers = {};                         // `may_be_absent` follows from the questions

  KnownOfSet known() const { return {.label_names = !labels.empty(), .answers = questions != nullptr}; }
};

class MetricCollector {
 public:
  virtual ~MetricCollector() = default;

  virtual void clear() = 0;
  // `logits` are those of the whole micro-batch, including padding.
  virtual void add(const MicroBatch& micro, std::span<const double> logits) = 0;
  // Collective over the data ranks, after all samples were added.
  virtual void reduce(Communicator& replicas) = 0;
  // Call it after reduce(). Adds the numbers of a metric that fits the task.
  virtual void report(MetricKind metric, MetricList& list) = 0;
};

// For a task with logits. `samples` is the number of evaluated samples of the set.
std::unique_ptr<MetricCollector> make_metric_collector(const TaskSettings& task,
                                                       const EvaluationSource& source, int64_t samples);

}  // namespace recollect
