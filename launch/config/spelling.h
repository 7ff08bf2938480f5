// What the user probably meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace recollect {

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps of
// neighbours, each counting one.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, letter case aside, or "" where none is near enough to be worth naming.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace recollect
