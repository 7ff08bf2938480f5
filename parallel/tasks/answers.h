// From the logits of a question's windows to an answer, as Transformers' example utils_qa.py chooses it: of every window the
// best starts and ends, of their pairs those that are spans of the text, of all windows' spans the best; and, where a
// question may have no answer, the better of that and of saying so. Scores are added in float, as there.
//
// Equal logits: the later token comes first. Equal scores: the span that was found first, with starts before ends. Tokens
// that are padding are no candidates, whatever their logits, so that an answer does not depend on the batch.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/data/questions.h"

namespace recollect {

struct AnswerRules {
  int64_t most_spans = 20;   // n_best_size
  int64_t most_tokens = 30;  // of an answer
  bool may_be_absent = false;
  float absent_from = 0;  // no answer where "none" scores higher than the best span by more than this
};

// What is kept of a window's logits, as numbers that a rank can send to another: two for "no answer", which stands at the
// first token, then the best starts and the best ends, a token and its logit each. Token -1: there are no more.
class WindowScores {
 public:
  static std::size_t size(int64_t most_spans) { return 2 + 4 * static_cast<std::size_t>(most_spans); }
  // `numbers` has that size. They are zero before keep_best().
  explicit WindowScores(std::span<double> numbers) : numbers_(numbers) {}

  // Logits [tokens, 2]: start, end.
  void keep_best(std::span<const double> logits);

  struct Candidate {
    int64_t token = -1;
    float logit = 0;
  };
  float of_none(bool end) const { return static_cast<float>(numbers_[end]); }
  Candidate candidate(bool end, std::size_t rank) const {
    const std::size_t at = 2 + 2 * (end ? count() + rank : rank);
    return {static_cast<int64_t>(numbers_[at]), static_cast<float>(numbers_[at + 1])};
  }
  std::size_t count() const { return (numbers_.size() - 2) / 4; }

 private:
  std::span<double> numbers_;
};

struct AnswerSpan {
  QuestionAnsweringSet::Place bytes;  // of the context; {0, 0}: none
  std::string_view text;              // "empty" where nothing was found
  float start_logit = 0, end_logit = 0, score = 0;
  double probability = 0;  // among those that are kept
};

struct ChosenAnswer {
  std::string_view text;          // "": the question has none
  std::vector<AnswerSpan> spans;  // the best first
  float none_above_best = 0;      // the score of none less that of the best span
};

// Of the example whose windows are these, from `first` on, all of them; the set must outlive the result.
ChosenAnswer choose_answer(const QuestionAnsweringSet& set, std::size_t first,
                           std::span<const WindowScores> windows, const AnswerRules& rules);

}  // namespace recollect
