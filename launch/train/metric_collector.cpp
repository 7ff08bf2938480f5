#include "launch/train/metric_collector.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "launch/train/answer_collector.h"
#include "parallel/tasks/class_counts.h"
#include "parallel/tasks/correlation.h"
#include "parallel/tasks/entities.h"

namespace recollect {

namespace {

std::span<const int32_t> targets_of(const MicroBatch& micro) { return micro.fields.at("targets").values; }

// Part `number` of `values`, which consists of parts of `size` values.
template <typename T>
std::span<const T> row(std::span<const T> values, int64_t number, int64_t size) {
  return values.subspan(static_cast<std::size_t>(number * size), static_cast<std::size_t>(size));
}

void add_up(std::span<int64_t> counts, Communicator& replicas) {
  replicas.all_reduce({counts.data(), {std::ssize(counts)}, DType::kI64}, ReduceOp::kSum);
}

[[noreturn]] void unknown_metric() {
  throw Error(ExitCode::kInternal, "a metric that does not fit its task");
}

// For one class per sample: a class, or the number of a choice.
class ClassCollector final : public MetricCollector {
 public:
  explicit ClassCollector(int64_t classes) : classes_(classes), counts_(classes) {}

  void clear() override { counts_.clear(); }
  void add(const MicroBatch& micro, std::span<const double> logits) override {
    const std::span<const int32_t> targets = targets_of(micro);
    for (int64_t i = 0; i < micro.samples; ++i)
      if (const int32_t target = targets[static_cast<std::size_t>(i)]; target != kIgnoredLabel)
        counts_.add(target, greatest_of(row(logits, i, classes_)));
  }
  void reduce(Communicator& replicas) override { add_up(counts_.numbers(), replicas); }
  void report(MetricKind metric, MetricList& list) override {
    if (metric == MetricKind::kAccuracy) return list.add("eval_accuracy", counts_.accuracy());
    if (metric == MetricKind::kF1) return list.add("eval_f1", counts_.f1(1));
    if (metric == MetricKind::kMatthews) return list.add("eval_matthews_correlation", counts_.matthews());
    unknown_metric();
  }

 private:
  int64_t classes_;
  ClassCounts counts_;
};

// For several labels per sample. A label is predicted if its logit is above 0, and true if its target is
// nearer to 1.
class LabelsCollector final : public MetricCollector {
 public:
  explicit LabelsCollector(int64_t labels) : labels_(labels), counts_(labels) {}

  void clear() override { counts_.clear(); }
  void add(const MicroBatch& micro, std::span<const double> logits) override {
    const std::span<const int32_t> targets = targets_of(micro);
    for (int64_t i = 0; i < micro.samples * labels_; ++i) {
      const auto target = std::bit_cast<float>(targets[static_cast<std::size_t>(i)]);
      if (!std::isnan(target))
        counts_.add_label(i % labels_, target > 0.5f, logits[static_cast<std::size_t>(i)] > 0);
    }
  }
  void reduce(Communicator& replicas) override { add_up(counts_.numbers(), replicas); }
  void report(MetricKind metric, MetricList& list) override {
    if (metric != MetricKind::kF1) unknown_metric();
    list.add("eval_f1", counts_.micro_f1());
  }

 private:
  int64_t labels_;
  ClassCounts counts_;
};

// For numbers per sample, stored in the order of the set.
class NumberCollector final : public MetricCollector {
 public:
  NumberCollector(int64_t labels, int64_t samples)
      : labels_(labels), numbers_(static_cast<std::size_t>(3 * labels * samples)) {}

  void clear() override { std::fill(numbers_.begin(), numbers_.end(), 0); }
  void add(const MicroBatch& micro, std::span<const double> logits) override {
    const std::span<const int32_t> targets = targets_of(micro);
    for (int64_t i = 0; i < micro.samples * labels_; ++i) {
      const auto target = std::bit_cast<float>(targets[static_cast<std::size_t>(i)]);
      if (std::isnan(target)) continue;
      double* kept = numbers_.data() + 3 * (micro.first_sample * labels_ + i);
      kept[0] = 1;
      kept[1] = logits[static_cast<std::size_t>(i)];
      kept[2] = target;
    }
  }
  void reduce(Communicator& replicas) override {
    replicas.all_reduce({numbers_.data(), {std::ssize(numbers_)}, DType::kF64}, ReduceOp::kSum);
    predicted_.clear();
    true_.clear();
    for (std::size_t at = 0; at < numbers_.size(); at += 3) {
      if (numbers_[at] == 0) continue;
      predicted_.push_back(numbers_[at + 1]);
      true_.push_back(numbers_[at + 2]);
    }
  }
  void report(MetricKind metric, MetricList& list) override {
    if (metric == MetricKind::kMse) return list.add("eval_mse", mean_squared_error(predicted_, true_));
    if (metric == MetricKind::kPearson) return list.add("eval_pearson", pearson(predicted_, true_));
    if (metric == MetricKind::kSpearman) return list.add("eval_spearmanr", spearman_(predicted_, true_));
    unknown_metric();
  }

 private:
  int64_t labels_;
  std::vector<double> numbers_;  // by sample and label: counts, prediction, truth
  std::vector<double> predicted_, true_;
  Spearman spearman_;
};

// For a class per token.
class TokenCollector final : public MetricCollector {
 public:
  TokenCollector(int64_t classes, std::span<const std::string> names) : classes_(classes), counts_(classes) {
    if (names.empty()) return;
    require(std::ssize(names) == classes, "other names than classes");
    tags_.emplace(names);
  }

  void clear() override {
    counts_.clear();
    entities_.clear();
  }
  void add(const MicroBatch& micro, std::span<const double> logits) override {
    for (int64_t i = 0; i < micro.samples; ++i) {
      const std::span<const int32_t> targets = row(targets_of(micro), i, micro.length);
      true_.clear();
      predicted_.clear();
      for (int64_t t = 0; t < micro.length; ++t) {
        const int32_t target = targets[static_cast<std::size_t>(t)];
        if (target == kIgnoredLabel) continue;
        const int64_t said = greatest_of(row(logits, i * micro.length + t, classes_));
        counts_.add(target, said);
        true_.push_back(target);
        predicted_.push_back(static_cast<int32_t>(said));
      }
      if (tags_) tags_->count(true_, predicted_, entities_);
    }
  }
  void reduce(Communicator& replicas) override {
    add_up(counts_.numbers(), replicas);
    add_up(entities_.numbers(), replicas);
  }
  void report(MetricKind metric, MetricList& list) override {
    if (metric == MetricKind::kAccuracy) return list.add("eval_accuracy", counts_.accuracy());
    if (metric != MetricKind::kEntities) unknown_metric();
    list.add("eval_precision", entities_.precision());
    list.add("eval_recall", entities_.recall());
    list.add("eval_f1", entities_.f1());
  }

 private:
  int64_t classes_;
  ClassCounts counts_;
  EntityCounts entities_;
  std::optional<EntityTags> tags_;  // if classes have names
  std::vector<int32_t> true_, predicted_;
};

}  // namespace

std::unique_ptr<MetricCollector> make_metric_collector(const TaskSettings& task,
                                                       const EvaluationSource& source, int64_t samples) {
  switch (task.task) {
    case Task::kSequenceClassification:
      if (task.problem == ProblemType::kSingleLabel) return std::make_unique<ClassCollector>(task.labels);
      if (task.problem == ProblemType::kMultiLabel) return std::make_unique<LabelsCollector>(task.labels);
      return std::make_unique<NumberCollector>(task.labels, samples);
    case Task::kMultipleChoice:
      return std::make_unique<ClassCollector>(task.choices);
    case Task::kTokenClassification:
      return std::make_unique<TokenCollector>(task.labels, source.labels);
    case Task::kQuestionAnswering:
      require(source.questions != nullptr, "answers without their texts");
      return make_answer_collector(*source.questions, source.answers, samples);
    case Task::kCausalLm:
    case Task::kMaskedLm:
      break;
  }
  throw Error(ExitCode::kInternal, "a task whose logits never exist at once");
}

}  // namespace recollect
