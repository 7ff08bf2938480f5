// Metrics are what scikit-learn, SciPy, seqeval, SQuAD's script and Transformers' utils_qa.py make of the same thousand
// cases; and which metrics fit a task.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/io/safetensors.h"
#include "parallel/tasks/answer_score.h"
#include "parallel/tasks/answers.h"
#include "parallel/tasks/class_counts.h"
#include "parallel/tasks/correlation.h"
#include "parallel/tasks/entities.h"
#include "parallel/tasks/metrics.h"
#include "tests/engine/expect_error.h"
#include "tests/parallel/metric_cases.h"

namespace recollect::test::metrics_test {
namespace {

// A table of the goldens: rows of cases.
class GoldenTable {
 public:
  explicit GoldenTable(const std::string& name) {
    const SafetensorsFile file(std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/metrics.safetensors");
    const TensorEntry& entry = file.at(name);
    cases_ = entry.shape[0];
    columns_ = static_cast<std::size_t>(entry.shape[1]);
    values_.resize(static_cast<std::size_t>(cases_) * columns_);
    file.read_as(entry, values_.data());
  }
  int64_t cases() const { return cases_; }
  std::span<const double> of(int64_t number) const {
    return std::span(values_).subspan(static_cast<std::size_t>(number) * columns_, columns_);
  }

 private:
  int64_t cases_ = 0;
  std::size_t columns_ = 0;
  std::vector<double> values_;
};

// As the goldens have most of them.
double as_float(double value) { return static_cast<float>(value); }

TEST(Metrics, OfOneClassAreScikitLearns) {
  const GoldenTable golden("classes");
  ASSERT_EQ(golden.cases(), 1000);
  for (int64_t number = 0; number < golden.cases(); ++number) {
    CaseRandom random(1, number);
    const int64_t labels = random.below(2) == 0 ? 2 : 3 + random.below(4);
    const bool lazy = random.below(10) == 0;
    ClassCounts counts(labels);
    counts.add(0, 1);
    counts.clear();
    for (int64_t left = 1 + random.below(60); left > 0; --left) {
      const int64_t truth = random.below(labels);
      counts.add(truth, lazy ? 0 : random.below(2) ? truth : random.below(labels));
    }
    const std::span<const double> expected = golden.of(number);
    ASSERT_EQ(as_float(counts.accuracy()), expected[0]) << number;
    ASSERT_EQ(labels == 2 ? as_float(counts.f1(1)) : -1, expected[1]) << number;
    ASSERT_NEAR(counts.matthews(), expected[2], 1e-7) << number;
  }
}

TEST(Metrics, OfManyLabelsAreScikitLearns) {
  const GoldenTable golden("many_labels");
  for (int64_t number = 0; number < golden.cases(); ++number) {
    CaseRandom random(2, number);
    const int64_t labels = 2 + random.below(5), samples = 1 + random.below(20), often = 1 + random.below(6);
    ClassCounts counts(labels);
    for (int64_t i = 0; i < samples * labels; ++i) {
      const bool truth = random.below(6) < often, said = random.below(6) < often;
      counts.add_label(i % labels, truth, said);
    }
    ASSERT_EQ(as_float(counts.micro_f1()), golden.of(number)[0]) << number;
  }
}

TEST(Metrics, OfNumbersAreScikitLearnsAndSciPys) {
  const GoldenTable golden("numbers");
  Spearman spearman;
  int undefined = 0;
  for (int64_t number = 0; number < golden.cases(); ++number) {
    CaseRandom random(3, number);
    const bool coarse = random.below(2) != 0;
    std::vector<double> a, b;
    for (int64_t left = 2 + random.below(60); left > 0; --left) {
      const double x = random.real(), y = random.real();
      a.push_back(coarse ? std::floor(5 * x) : 10 * x - 5);
      b.push_back(coarse ? std::floor(4 * y + x) : y + 0.25 * a.back());
    }
    const std::span<const double> expected = golden.of(number);
    const double made[] = {mean_squared_error(a, b), pearson(a, b), spearman(a, b)};
    for (std::size_t i = 0; i < 3; ++i)
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(made[i])) << number;
        ++undefined;
      } else {
        ASSERT_NEAR(made[i], expected[i], 1e-12) << number << ", " << i;
      }
  }
  EXPECT_GT(undefined, 0);
  EXPECT_TRUE(std::isnan(pearson(std::vector{1.0}, std::vector{2.0})));
}

TEST(Metrics, OfEntitiesAreSeqevals) {
  const GoldenTable golden("entities");
  for (int64_t number = 0; number < golden.cases(); ++number) {
    CaseRandom random(4, number);
    const std::vector<std::string>& names = random.choose(kTagSets);
    const EntityTags tags(names);
    EntityCounts counts;
    ClassCounts tokens(std::ssize(names));
    for (int64_t left = 1 + random.below(5); left > 0; --left) {
      std::vector<int32_t> truth, said;
      for (int64_t more = 1 + random.below(12); more > 0; --more) {
        truth.push_back(static_cast<int32_t>(random.below(std::ssize(names))));
        const auto other = static_cast<int32_t>(random.below(std::ssize(names)));
        said.push_back(random.below(3) ? truth.back() : other);
        tokens.add(truth.back(), said.back());
      }
      tags.count(truth, said, counts);
    }
    const std::span<const double> expected = golden.of(number);
    ASSERT_EQ(as_float(counts.precision()), expected[0]) << number << ": " << fmt::format("{}", names);
    ASSERT_EQ(as_float(counts.recall()), expected[1]) << number;
    ASSERT_EQ(as_float(counts.f1()), expected[2]) << number;
    ASSERT_EQ(as_float(tokens.accuracy()), expected[3]) << number;
  }
}

TEST(Metrics, OfAnswersAreSquads) {
  const GoldenTable golden("answer_scores");
  const AnswerScorer first(false), second(true);
  for (int64_t number = 0; number < golden.cases(); ++number) {
    CaseRandom random(5, number);
    std::vector<std::string> answers(static_cast<std::size_t>(1 + random.below(3)));
    for (std::string& answer : answers) answer = phrase(random);
    std::string said = random.below(2) ? random.choose(answers) : phrase(random);
    if (random.below(3) == 0) {
      said += random.choose(kCaseSeparators);
      said += random.choose(kCaseWords);
    }
    if (random.below(8) == 0) answers = {""};
    const std::span<const double> expected = golden.of(number);
    ASSERT_EQ(fnv(fmt::format("{}", fmt::join(first.words(said), " "))), expected[4])
        << number << ": " << said;
    const AnswerScorer::Score one = first.score(said, answers), two = second.score(said, answers);
    ASSERT_EQ(one.exact, expected[0]) << number << ": " << said;
    ASSERT_EQ(as_float(one.f1), expected[1]) << number << ": " << said;
    ASSERT_EQ(two.exact, expected[2]) << number << ": " << said;
    ASSERT_EQ(as_float(two.f1), expected[3]) << number << ": " << said;
  }
  EXPECT_EQ(second.score("", {}).exact, 1) << "a question without an answer";
  EXPECT_EQ(second.score("some", {}).f1, 0);
}

// One example, as the cases describe it.
struct AnswerCase {
  QuestionAnsweringSet set;
  AnswerRules rules;
  std::vector<std::vector<double>> logits;  // by window

  explicit AnswerCase(CaseRandom& random) {
    std::string context;
    for (int64_t left = 3 + random.below(30); left > 0; --left) {
      const std::string& word = random.choose(kCaseWords);
      set.places.push_back(
          {static_cast<uint32_t>(context.size()), static_cast<uint32_t>(context.size() + word.size())});
      context += word + " ";
    }
    set.contexts = {context};
    set.examples.emplace_back();
    rules.may_be_absent = random.below(2) == 1;
    const bool tied = random.below(2) == 1;
    rules.most_spans = random.choose(std::vector<int64_t>{1, 3, 20});
    rules.most_tokens = random.choose(std::vector<int64_t>{1, 3, 30});
    rules.absent_from = random.choose(std::vector<float>{0, 1.5, -2});
    const int64_t tokens = std::ssize(set.places);
    for (int64_t left = 1 + random.below(3); left > 0; --left) {
      const int64_t question = 2 + random.below(5), first = random.below(tokens),
                    size = 1 + random.below(tokens - first);
      set.windows.push_back({.example = 0,
                             .token = static_cast<uint32_t>(question),
                             .size = static_cast<uint32_t>(size),
                             .first = set.places[static_cast<std::size_t>(first)],
                             .places = static_cast<std::size_t>(first)});
      logits.emplace_back();
      for (int64_t i = 0; i < 2 * (question + size + 1); ++i)
        logits.back().push_back(tied ? static_cast<double>(random.below(16) - 8) / 4
                                     : static_cast<double>(random.below(1 << 20)) / 65536 - 8);
    }
  }
};

TEST(Metrics, AnswersAreChosenAsByUtilsQa) {
  const GoldenTable golden("answers");
  int absent = 0;
  for (int64_t number = 0; number < golden.cases(); ++number) {
    CaseRandom random(6, number);
    const AnswerCase question(random);
    const std::size_t size = WindowScores::size(question.rules.most_spans);
    std::vector<double> kept(size * question.logits.size());
    std::vector<WindowScores> windows;
    for (std::size_t i = 0; i < question.logits.size(); ++i)
      windows.emplace_back(std::span(kept).subspan(i * size, size)).keep_best(question.logits[i]);
    const ChosenAnswer chosen = choose_answer(question.set, 0, windows, question.rules);
    std::vector<std::string_view> texts;
    for (const AnswerSpan& span : chosen.spans) texts.push_back(span.text);
    const std::span<const double> expected = golden.of(number);
    ASSERT_EQ(fnv(std::string(chosen.text)), expected[0]) << number << ": " << chosen.text;
    ASSERT_EQ(fnv(fmt::format("{}", fmt::join(texts, "\n"))), expected[1]) << number;
    ASSERT_NEAR(chosen.spans.at(0).probability, expected[2], 1e-6) << number;
    ASSERT_EQ(chosen.none_above_best, expected[3]) << number;
    absent += chosen.text.empty();
  }
  EXPECT_GT(absent, 50);
}

TEST(Metrics, AnswersOfNothingButEmptySpans) {
  QuestionAnsweringSet set;
  set.contexts = {"ab"};
  set.examples.emplace_back();
  set.windows.push_back({.example = 0, .token = 1, .size = 2, .first = {1, 1}, .places = 0});
  set.places = {{1, 1}, {1, 1}};
  for (const bool may_be_absent : {false, true}) {
    std::vector<double> kept(WindowScores::size(20));
    WindowScores window(kept);
    window.keep_best(std::vector<double>{0, 0, 1, 2, 3, 4});
    const ChosenAnswer chosen =
        choose_answer(set, 0, std::span(&window, 1), {.may_be_absent = may_be_absent});
    EXPECT_EQ(chosen.text, "");
  }
}

TaskSettings classification(int64_t labels, ProblemType problem = ProblemType::kSingleLabel) {
  return {.task = Task::kSequenceClassification, .labels = labels, .problem = problem};
}

std::string names(const std::vector<MetricKind>& metrics) {
  std::string text;
  for (const MetricKind metric : metrics) text += (text.empty() ? "" : " ") + std::string(name_of(metric));
  return text;
}

TEST(MetricChoice, EveryTaskHasItsOwn) {
  const auto own = [](const TaskSettings& task, const KnownOfSet& known = {}) {
    const std::vector<MetricKind> metrics = choose_metrics(task, known, {});
    for (const MetricKind metric : metrics) EXPECT_EQ(why_not(metric, task, known), "");
    return names(metrics);
  };
  EXPECT_EQ(own(classification(2)), "accuracy f1 matthews");
  EXPECT_EQ(own(classification(3)), "accuracy");
  EXPECT_EQ(own(classification(1, ProblemType::kRegression)), "mse pearson spearman");
  EXPECT_EQ(own(classification(2, ProblemType::kRegression)), "mse");
  EXPECT_EQ(own(classification(4, ProblemType::kMultiLabel)), "f1");
  EXPECT_EQ(own({.task = Task::kMultipleChoice, .labels = 2, .choices = 4}), "accuracy");
  EXPECT_EQ(own({.task = Task::kTokenClassification, .labels = 5}), "accuracy");
  EXPECT_EQ(own({.task = Task::kTokenClassification, .labels = 5}, {.label_names = true}),
            "entities accuracy");
  EXPECT_EQ(own({.task = Task::kQuestionAnswering}), "");
  EXPECT_EQ(own({.task = Task::kQuestionAnswering}, {.answers = true}), "squad");
  EXPECT_EQ(own({.task = Task::kCausalLm}), "perplexity");
  EXPECT_EQ(own({.task = Task::kMaskedLm}), "perplexity");
}

TEST(MetricChoice, WordsAreTakenInTheirOrder) {
  const std::vector<std::string> words{"matthews", "accuracy"};
  EXPECT_EQ(names(choose_metrics(classification(3), {}, words)), "matthews accuracy");
}

TEST(MetricChoice, WhatDoesNotFitIsRefused) {
  const auto choose = [](const TaskSettings& task, const std::vector<std::string>& words) {
    return [=] { choose_metrics(task, {}, words); };
  };
  expect_error(ExitCode::kConfiguration, {"f1"}, choose(classification(3), {"f1"}));
  expect_error(ExitCode::kConfiguration, {"did you mean 'accuracy'?"},
               choose(classification(3), {"acuracy"}));
  expect_error(ExitCode::kConfiguration, {"twice"}, choose(classification(3), {"accuracy", "accuracy"}));
  expect_error(ExitCode::kConfiguration, {"names of the classes"},
               choose({.task = Task::kTokenClassification, .labels = 3}, {"entities"}));
  expect_error(ExitCode::kConfiguration, {"texts"}, choose({.task = Task::kQuestionAnswering}, {"squad"}));
  expect_error(ExitCode::kConfiguration, {"accuracy"}, choose({.task = Task::kCausalLm}, {"accuracy"}));
}

}  // namespace
}  // namespace recollect::test::metrics_test
