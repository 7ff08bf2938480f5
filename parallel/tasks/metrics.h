// By what a task is judged beside its loss: the metrics there are, which of them fit a task, and which it has where
// nobody says. What each is computed from stands in the files beside this one: class_counts.h, correlation.h, entities.h,
// answers.h and answer_score.h.
//
// metric      of                                          reported as                  as defined by
// accuracy    one class: of a sample, a token, a choice   eval_accuracy                scikit-learn
// f1          two classes: of class 1; several labels:    eval_f1                      scikit-learn
//             over all of them ("micro")
// matthews    one class of a sample                       eval_matthews_correlation    scikit-learn
// mse         numbers                                     eval_mse                     scikit-learn
// pearson     one number                                  eval_pearson                 SciPy
// spearman    one number                                  eval_spearmanr               SciPy
// entities    classes of tokens that have names           eval_precision, eval_recall, seqeval's default
//                                                         eval_f1
// squad       answers, with the texts they come from      eval_exact_match, eval_f1,   SQuAD's evaluation scripts
//                                                         in percent
// perplexity  a language model: exp(loss)                 perplexity
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/spelled.h"
#include "parallel/tasks/task.h"

namespace recollect {

enum class MetricKind {
  kAccuracy,
  kF1,
  kMatthews,
  kMse,
  kPearson,
  kSpearman,
  kEntities,
  kSquad,
  kPerplexity
};
template <>
inline constexpr std::array<std::string_view, 9> kSpellings<MetricKind> = {
    "accuracy", "f1", "matthews", "mse", "pearson", "spearman", "entities", "squad", "perplexity"};

// A number by which one evaluation is better than another: as it is reported, without "eval_".
struct ComparedMetric {
  std::string_view name;
  bool more_is_better;
};
inline constexpr std::array<ComparedMetric, 11> kComparedMetrics = {{{"loss", false},
                                                                     {"perplexity", false},
                                                                     {"accuracy", true},
                                                                     {"f1", true},
                                                                     {"matthews_correlation", true},
                                                                     {"mse", false},
                                                                     {"pearson", true},
                                                                     {"spearmanr", true},
                                                                     {"precision", true},
                                                                     {"recall", true},
                                                                     {"exact_match", true}}};
// Whether the metric is reported as that number, among others or alone. The loss is no metric's.
bool reports(MetricKind metric, std::string_view name);

// What an evaluation set may know beyond its samples.
struct KnownOfSet {
  bool label_names = false;  // what the classes are called
  bool answers = false;      // questions with their texts and answers
};

// Why the metric cannot be had of the task, as the end of a sentence that begins with its name; "" where it can.
std::string why_not(MetricKind metric, const TaskSettings& task, const KnownOfSet& known);

// Those of a task of which nothing is said, in the order in which they are reported.
std::vector<MetricKind> default_metrics(const TaskSettings& task, const KnownOfSet& known);

// Those that `words` name, in their order; none: the task's own. Error kConfiguration for a word that is no metric,
// stands there twice, or does not fit.
std::vector<MetricKind> choose_metrics(const TaskSettings& task, const KnownOfSet& known,
                                       std::span<const std::string> words);

struct MetricValue {
  std::string_view name;  // as it is reported: a literal
  double value = 0;       // NaN where it is not defined, such as a correlation with what never changes
  bool operator==(const MetricValue&) const = default;
};

// In the order in which they are reported. Takes no memory of its own.
class MetricList {
 public:
  static constexpr std::size_t kMost = 12;

  void add(std::string_view name, double value) {
    require(size_ < kMost, "more metrics than there are");
    values_[size_++] = {name, value};
  }
  const MetricValue* begin() const { return values_.data(); }
  const MetricValue* end() const { return values_.data() + size_; }
  std::size_t size() const { return size_; }

 private:
  std::array<MetricValue, kMost> values_{};
  std::size_t size_ = 0;
};

}  // namespace recollect
