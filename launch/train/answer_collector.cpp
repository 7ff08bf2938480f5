#include "launch/train/answer_collector.h"

#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "parallel/tasks/answer_score.h"

namespace recollect {

namespace {

bool has_impossible(const QuestionAnsweringSet& set) {
  return std::any_of(set.examples.begin(), set.examples.end(),
                     [](const QuestionAnsweringSet::Example& example) { return example.is_impossible; });
}

class AnswerCollector final : public MetricCollector {
 public:
  AnswerCollector(const QuestionAnsweringSet& set, AnswerRules rules, int64_t samples)
      : set_(set),
        rules_(rules),
        windows_(static_cast<std::size_t>(samples)),
        scorer_(rules.may_be_absent),
        numbers_(windows_ * WindowScores::size(rules.most_spans)) {
    require(windows_ <= set.windows.size(), "more samples than windows");
  }

  void clear() override { std::fill(numbers_.begin(), numbers_.end(), 0); }

  void add(const MicroBatch& micro, std::span<const double> logits) override {
    const std::vector<int32_t>& lengths = micro.fields.at("lengths").values;
    for (int64_t i = 0; i < micro.samples; ++i) {
      const auto first = static_cast<std::size_t>(2 * i * micro.length),
                 tokens = static_cast<std::size_t>(lengths[static_cast<std::size_t>(i)]);
      window(static_cast<std::size_t>(micro.first_sample + i)).keep_best(logits.subspan(first, 2 * tokens));
    }
  }

  void reduce(Communicator& replicas) override {
    replicas.all_reduce({numbers_.data(), {std::ssize(numbers_)}, DType::kF64}, ReduceOp::kSum);
    AnswerScorer::Score sum;
    int64_t questions = 0;
    std::vector<WindowScores> of_question;
    for (std::size_t begin = 0, end = 0; begin < windows_; begin = end) {
      const uint32_t number = set_.windows[begin].example;
      of_question.clear();
      for (; end < set_.windows.size() && set_.windows[end].example == number; ++end)
        if (end < windows_) of_question.push_back(window(end));
      const QuestionAnsweringSet::Example& example = set_.examples[number];
      if (end > windows_ || (example.answers.empty() && !rules_.may_be_absent)) continue;
      const AnswerScorer::Score score = judge(begin, of_question, example);
      sum.exact += score.exact;
      sum.f1 += score.f1;
      ++questions;
    }
    const double all =
        questions > 0 ? static_cast<double>(questions) : std::numeric_limits<double>::quiet_NaN();
    percent_ = {100 * sum.exact / all, 100 * sum.f1 / all};
  }

  void report(MetricKind metric, MetricList& list) override {
    require(metric == MetricKind::kSquad, "a metric that does not fit its task");
    list.add("eval_exact_match", percent_.exact);
    list.add("eval_f1", percent_.f1);
  }

 private:
  WindowScores window(std::size_t number) {
    const std::size_t size = WindowScores::size(rules_.most_spans);
    return WindowScores(std::span(numbers_).subspan(number * size, size));
  }

  AnswerScorer::Score judge(std::size_t first, std::span<const WindowScores> windows,
                            const QuestionAnsweringSet::Example& example) const {
    std::vector<std::string> answers;
    for (const QuestionAnsweringSet::Answer& answer : example.answers) answers.push_back(answer.text);
    return scorer_.score(choose_answer(set_, first, windows, rules_).text, answers);
  }

  const QuestionAnsweringSet& set_;
  AnswerRules rules_;
  std::size_t windows_;
  AnswerScorer scorer_;
  std::vector<double> numbers_;  // WindowScores, by window
  AnswerScorer::Score percent_;
};

}  // namespace

std::unique_ptr<MetricCollector> make_answer_collector(const QuestionAnsweringSet& questions,
                                                       const AnswerRules& rules, int64_t samples) {
  AnswerRules followed = rules;
  followed.may_be_absent = has_impossible(questions);
  return std::make_unique<AnswerCollector>(questions, followed, samples);
}

}  // namespace recollect
