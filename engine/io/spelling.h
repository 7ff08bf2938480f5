// Finds the word that the user probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace recollect {

// Returns the candidate nearest to `word` by insertions, deletions, substitutions and swaps of neighbours,
// ignoring case, or "" if none is near enough to suggest. Names with the same number of words are compared
// word by word: save_steps is not near eval_steps. Other names may differ only in the signs between words and
// in one letter.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace recollect
