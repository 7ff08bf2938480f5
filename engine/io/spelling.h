// What the user probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace recollect {

// The candidate nearest to `word` by insertions, deletions, substitutions and swaps of neighbours, letter
// case aside, or "" where none is near enough to be worth naming. Names of as many words are compared word by
// word: save_steps is not near eval_steps; of others, only the signs between words may differ, and a letter.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace recollect
