#include "parallel/tasks/answers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/error.h"

namespace recollect {

namespace {

using Place = QuestionAnsweringSet::Place;

// Of the pairs of a window's starts and ends, those that are spans of its context.
void add_spans(const QuestionAnsweringSet& set, std::size_t window, const WindowScores& scores,
               int64_t most_tokens, std::vector<AnswerSpan>& spans) {
  for (std::size_t s = 0; s < scores.count(); ++s) {
    const WindowScores::Candidate start = scores.candidate(false, s);
    if (start.token < 0) break;
    const std::optional<Place> begin = set.place(window, static_cast<std::size_t>(start.token));
    if (!begin) continue;
    for (std::size_t e = 0; e < scores.count(); ++e) {
      const WindowScores::Candidate end = scores.candidate(true, e);
      if (end.token < start.token || end.token - start.token + 1 > most_tokens) continue;
      const std::optional<Place> last = set.place(window, static_cast<std::size_t>(end.token));
      if (!last) continue;
      spans.push_back({.bytes = {begin->begin, last->end},
                       .text = {},
                       .start_logit = start.logit,
                       .end_logit = end.logit,
                       .score = start.logit + end.logit});
    }
  }
}

// That of the window which believes least that there is no answer.
AnswerSpan none_of(std::span<const WindowScores> windows) {
  AnswerSpan none;
  for (const WindowScores& window : windows) {
    const float start = window.of_none(false), end = window.of_none(true);
    if (&window != windows.data() && !(none.score > start + end)) continue;
    none.start_logit = start;
    none.end_logit = end;
    none.score = start + end;
  }
  return none;
}

void add_probabilities(std::vector<AnswerSpan>& spans) {
  float most = -INFINITY;
  for (const AnswerSpan& span : spans) most = std::max(most, span.score);
  double sum = 0;
  for (AnswerSpan& span : spans) sum += span.probability = std::exp(static_cast<double>(span.score) - most);
  for (AnswerSpan& span : spans) span.probability /= sum;
}

}  // namespace

void WindowScores::keep_best(std::span<const double> logits) {
  std::vector<int64_t> order(logits.size() / 2);
  require(!order.empty(), "a window without tokens");
  for (const bool end : {false, true}) {
    const auto logit = [&](int64_t token) {
      return static_cast<float>(logits[2 * static_cast<std::size_t>(token) + end]);
    };
    numbers_[end] = logit(0);
    std::iota(order.begin(), order.end(), 0);
    const std::size_t kept = std::min(order.size(), count());
    std::partial_sort(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
        [&](int64_t a, int64_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a > b; });
    double* next = numbers_.data() + 2 + (end ? 2 * count() : 0);
    for (std::size_t rank = 0; rank < count(); ++rank) {
      *next++ = rank < kept ? static_cast<double>(order[rank]) : -1;
      *next++ = rank < kept ? logit(order[rank]) : 0;
    }
  }
}

ChosenAnswer choose_answer(const QuestionAnsweringSet& set, std::size_t first,
                           std::span<const WindowScores> windows, const AnswerRules& rules) {
  require(!windows.empty(), "a question without windows");
  const std::string_view context = set.context_of(set.example_of(first));
  ChosenAnswer chosen;
  std::vector<AnswerSpan>& spans = chosen.spans;
  for (std::size_t i = 0; i < windows.size(); ++i)
    add_spans(set, first + i, windows[i], rules.most_tokens, spans);
  const AnswerSpan none = none_of(windows);
  if (rules.may_be_absent) spans.push_back(none);
  std::stable_sort(spans.begin(), spans.end(),
                   [](const AnswerSpan& a, const AnswerSpan& b) { return a.score > b.score; });
  if (spans.size() > static_cast<std::size_t>(rules.most_spans))
    spans.resize(static_cast<std::size_t>(rules.most_spans));
  const bool none_is_kept =
      std::any_of(spans.begin(), spans.end(), [](const AnswerSpan& span) { return span.bytes == Place{}; });
  if (rules.may_be_absent && !none_is_kept) spans.push_back(none);
  for (AnswerSpan& span : spans)
    span.text = context.substr(span.bytes.begin, span.bytes.end - span.bytes.begin);
  if (spans.empty() || (spans.size() == 1 && spans[0].text.empty()))
    spans.insert(spans.begin(), {.bytes = {}, .text = "empty"});
  add_probabilities(spans);

  chosen.text = spans[0].text;
  if (!rules.may_be_absent) return chosen;
  const auto best =
      std::find_if(spans.begin(), spans.end(), [](const AnswerSpan& span) { return !span.text.empty(); });
  if (best == spans.end()) {  // spans of no text, side by side
    chosen.none_above_best = none.score;
    return chosen;
  }
  chosen.none_above_best = none.score - best->start_logit - best->end_logit;
  chosen.text = chosen.none_above_best > rules.absent_from ? std::string_view() : best->text;
  return chosen;
}

}  // namespace recollect
