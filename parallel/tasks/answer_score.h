// How right an answer is, by SQuAD's evaluation scripts, 1.1's and 2.0's. Answers are compared word by word: in lower
// case, without ASCII punctuation and articles; what a letter, a blank and the lower case is, Python says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/unicode.h"

namespace recollect {

class AnswerScorer {
 public:
  struct Score {
    double exact = 0;  // 0 or 1
    double f1 = 0;
  };

  // `may_be_absent`: by the rules of 2.0, where "" is the answer of a question that has none.
  explicit AnswerScorer(bool may_be_absent) : may_be_absent_(may_be_absent) {}

  // The best over the answers that are given. Valid UTF-8.
  Score score(std::string_view predicted, std::span<const std::string> answers) const;

  // str.lower() of Python.
  std::string lower(std::string_view text) const;
  // What two answers are compared by.
  std::vector<std::string> words(std::string_view text) const;

 private:
  Score score_one(const std::vector<std::string>& predicted, const std::vector<std::string>& answer) const;

  bool may_be_absent_;
  Characters characters_;
};

}  // namespace recollect
