#include "parallel/tasks/metrics.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/io/spelling.h"

namespace recollect {

namespace {

bool is_language_model(const TaskSettings& t) {
  return t.task == Task::kCausalLm || t.task == Task::kMaskedLm;
}

bool classifies_samples(const TaskSettings& t) {
  return t.task == Task::kSequenceClassification && t.problem == ProblemType::kSingleLabel;
}

bool is_regression(const TaskSettings& t) {
  return t.task == Task::kSequenceClassification && t.problem == ProblemType::kRegression;
}

bool has_many_labels(const TaskSettings& t) {
  return t.task == Task::kSequenceClassification && t.problem == ProblemType::kMultiLabel;
}

const char* unless(bool fits, const char* why) { return fits ? "" : why; }

MetricKind metric_of(const std::string& word) {
  constexpr auto& kNames = kSpellings<MetricKind>;
  const auto found = std::find(kNames.begin(), kNames.end(), word);
  if (found != kNames.end()) return static_cast<MetricKind>(found - kNames.begin());
  const std::string meant = nearest(word, kNames);
  throw Error(ExitCode::kConfiguration,
              fmt::format("evaluation.metrics: '{}' is no metric{}", word,
                          meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)),
              fmt::format("there are: {}", fmt::join(kNames, ", ")));
}

}  // namespace

bool reports(MetricKind metric, std::string_view name) {
  switch (metric) {
    case MetricKind::kAccuracy:
      return name == "accuracy";
    case MetricKind::kF1:
      return name == "f1";
    case MetricKind::kMatthews:
      return name == "matthews_correlation";
    case MetricKind::kMse:
      return name == "mse";
    case MetricKind::kPearson:
      return name == "pearson";
    case MetricKind::kSpearman:
      return name == "spearmanr";
    case MetricKind::kEntities:
      return name == "precision" || name == "recall" || name == "f1";
    case MetricKind::kSquad:
      return name == "exact_match" || name == "f1";
    case MetricKind::kPerplexity:
      return name == "perplexity";
  }
  throw Error(ExitCode::kInternal, "unknown metric");
}

std::string why_not(MetricKind metric, const TaskSettings& t, const KnownOfSet& known) {
  switch (metric) {
    case MetricKind::kAccuracy:
      return unless(
          classifies_samples(t) || t.task == Task::kMultipleChoice || t.task == Task::kTokenClassification,
          "is of one class for each sample, token or question");
    case MetricKind::kF1:
      return unless((classifies_samples(t) && t.labels == 2) || has_many_labels(t),
                    "is of two classes, or of several labels at a time");
    case MetricKind::kMatthews:
      return unless(classifies_samples(t), "is of one class for each sample");
    case MetricKind::kMse:
      return unless(is_regression(t), "is of numbers");
    case MetricKind::kPearson:
    case MetricKind::kSpearman:
      return unless(is_regression(t) && t.labels == 1, "is of one number for each sample");
    case MetricKind::kEntities:
      if (t.task != Task::kTokenClassification) return "are of classes of tokens";
      return unless(known.label_names, "need the names of the classes, which this data does not say");
    case MetricKind::kSquad:
      if (t.task != Task::kQuestionAnswering) return "is of answers to questions";
      return unless(known.answers, "needs the texts of questions and answers, which this data does not have");
    case MetricKind::kPerplexity:
      return unless(is_language_model(t), "is of language models");
  }
  throw Error(ExitCode::kInternal, "unknown metric");
}

std::vector<MetricKind> default_metrics(const TaskSettings& t, const KnownOfSet& known) {
  std::vector<MetricKind> metrics;
  for (const MetricKind metric : {MetricKind::kEntities, MetricKind::kAccuracy, MetricKind::kF1,
                                  MetricKind::kMatthews, MetricKind::kMse, MetricKind::kPearson,
                                  MetricKind::kSpearman, MetricKind::kSquad, MetricKind::kPerplexity}) {
    const bool of_two = metric == MetricKind::kMatthews && t.labels != 2;  // said of more only when asked for
    if (!of_two && why_not(metric, t, known).empty()) metrics.push_back(metric);
  }
  return metrics;
}

std::vector<MetricKind> choose_metrics(const TaskSettings& task, const KnownOfSet& known,
                                       std::span<const std::string> words) {
  if (words.empty()) return default_metrics(task, known);
  std::vector<MetricKind> metrics;
  for (const std::string& word : words) {
    const MetricKind metric = metric_of(word);
    if (std::find(metrics.begin(), metrics.end(), metric) != metrics.end())
      throw Error(ExitCode::kConfiguration, fmt::format("evaluation.metrics names {} twice", word),
                  "name it once");
    if (const std::string why = why_not(metric, task, known); !why.empty()) {
      std::vector<std::string_view> fitting;
      for (std::size_t i = 0; i < kSpellings<MetricKind>.size(); ++i)
        if (why_not(static_cast<MetricKind>(i), task, known).empty())
          fitting.push_back(kSpellings<MetricKind>[i]);
      throw Error(ExitCode::kConfiguration, fmt::format("evaluation.metrics: {} {}", word, why),
                  fitting.empty()
                      ? fmt::format("{} has none here; leave evaluation.metrics out", name_of(task.task))
                      : fmt::format("{} has here: {}", name_of(task.task), fmt::join(fitting, ", ")));
    }
    metrics.push_back(metric);
  }
  return metrics;
}

}  // namespace recollect
