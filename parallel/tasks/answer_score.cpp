#include "parallel/tasks/answer_score.h"

#include <algorithm>
#include <array>

#include "parallel/tasks/case_tables.h"

namespace recollect {

namespace {

constexpr uint32_t kSigma = 0x3a3, kFinalSigma = 0x3c2;

bool lies_in(std::span<const CodeRange> ranges, uint32_t point) {
  const auto range = std::lower_bound(ranges.begin(), ranges.end(), point,
                                      [](const CodeRange& r, uint32_t p) { return r.last < p; });
  return range != ranges.end() && range->first <= point;
}

// The next character, or the one before, that says whether a word goes on there.
template <typename Step>
bool has_cased(const std::u32string& text, std::size_t at, Step step) {
  for (at = step(at); at < text.size(); at = step(at))
    if (!lies_in(case_tables::kIgnorable, text[at])) return lies_in(case_tables::kCased, text[at]);
  return false;
}

// A sigma that ends a word has a form of its own.
bool is_final_sigma(const std::u32string& text, std::size_t at) {
  return has_cased(text, at, [](std::size_t i) { return i - 1; }) &&
         !has_cased(text, at, [](std::size_t i) { return i + 1; });
}

std::u32string points_of(std::string_view text) {
  std::u32string points;
  for (std::size_t at = 0; at < text.size();) points += static_cast<char32_t>(decode_utf8(text, at));
  return points;
}

// As str.split() has it.
bool is_blank(uint32_t point) {
  return (point >= 0x9 && point <= 0xd) || (point >= 0x1c && point <= 0x20) || point == 0x85 ||
         point == 0xa0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
         point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

// Of string.punctuation.
bool is_ascii_punctuation(uint32_t point) {
  return (point >= '!' && point <= '/') || (point >= ':' && point <= '@') || (point >= '[' && point <= '`') ||
         (point >= '{' && point <= '~');
}

bool is_article(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

}  // namespace

std::string AnswerScorer::lower(std::string_view text) const {
  const std::u32string points = points_of(text);
  std::string lowered;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i] == kSigma && is_final_sigma(points, i))
      append_utf8(kFinalSigma, lowered);
    else
      characters_.append_lower(points[i], lowered);
  return lowered;
}

std::vector<std::string> AnswerScorer::words(std::string_view text) const {
  const std::string lowered = lower(text);
  std::vector<std::string> words;
  std::string word, run;  // between blanks; of letters and digits alone, whose place is behind `word`
  const auto end_run = [&] {
    if (!is_article(run)) word += run;
    const bool cuts = is_article(run);
    run.clear();
    return cuts;
  };
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t at = 0; at < lowered.size();) {
    const uint32_t point = decode_utf8(lowered, at);
    if (is_ascii_punctuation(point)) continue;
    const CharacterClass kind = characters_.class_of(point);
    if (kind == CharacterClass::kLetter || kind == CharacterClass::kNumber) {
      append_utf8(point, run);
      continue;
    }
    if (end_run() || is_blank(point)) end_word();
    if (!is_blank(point)) append_utf8(point, word);
  }
  end_run();
  end_word();
  return words;
}

AnswerScorer::Score AnswerScorer::score_one(const std::vector<std::string>& predicted,
                                            const std::vector<std::string>& answer) const {
  const double exact = predicted == answer ? 1 : 0;
  if (may_be_absent_ && (predicted.empty() || answer.empty())) return {exact, exact};
  std::vector<std::string> left = answer;
  int64_t common = 0;
  for (const std::string& word : predicted)
    if (const auto same = std::find(left.begin(), left.end(), word); same != left.end()) {
      left.erase(same);
      ++common;
    }
  if (common == 0) return {exact, 0};
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size()),
               recall = static_cast<double>(common) / static_cast<double>(answer.size());
  return {exact, 2 * precision * recall / (precision + recall)};
}

AnswerScorer::Score AnswerScorer::score(std::string_view predicted,
                                        std::span<const std::string> answers) const {
  const std::vector<std::string> said = words(predicted);
  Score best;
  bool any = false;
  for (const std::string& answer : answers) {
    const std::vector<std::string> given = words(answer);
    if (may_be_absent_ && given.empty()) continue;
    const Score one = score_one(said, given);
    best = {std::max(best.exact, one.exact), std::max(best.f1, one.f1)};
    any = true;
  }
  return any ? best : score_one(said, {});
}

}  // namespace recollect
