#include "engine/io/spelling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdint>
#include <vector>

namespace recollect {
namespace {

constexpr std::size_t kLongestWord = 64;  // longer than any key: nothing is near it
// Candidates are longer by no more than the edits that are allowed.
constexpr std::size_t kLongest = kLongestWord + kLongestWord / 3;

std::size_t most_edits(std::string_view word) { return std::max<std::size_t>(1, word.size() / 3); }

char lower_case(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// A word in lower case, with a set of its characters as 64 bits.
struct Word {
  explicit Word(std::string_view text) : size(text.size()) {
    for (std::size_t i = 0; i < size; ++i) {
      letters[i] = lower_case(text[i]);
      present |= uint64_t{1} << (static_cast<unsigned char>(letters[i]) % 64);
    }
  }
  char letters[kLongest];
  std::size_t size;
  uint64_t present = 0;
};

// A quick test before edit_distance(): one edit adds at most one character to the set and removes at most
// one.
bool may_be_within(const Word& a, const Word& b, std::size_t most) {
  return static_cast<std::size_t>(std::popcount(a.present & ~b.present)) <= most &&
         static_cast<std::size_t>(std::popcount(b.present & ~a.present)) <= most;
}

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps of
// neighbours count one each. If the distance exceeds `most`, returns a number larger than `most`; only the
// table's band of that width around the diagonal is computed.
std::size_t edit_distance(const Word& a, const Word& b, std::size_t most) {
  const std::size_t far = most + 1;
  std::array<std::size_t, kLongest + 1> rows[3] = {};
  std::size_t *row = rows[0].data(), *above = rows[1].data(), *second = rows[2].data();
  for (std::size_t j = 0; j <= b.size; ++j) row[j] = std::min(j, far);
  for (std::size_t i = 1; i <= a.size; ++i) {
    std::size_t* const free = second;
    second = above, above = row, row = free;
    const std::size_t first = i > most ? i - most : 1, last = std::min(i + most, b.size);
    std::size_t least = row[first - 1] = first == 1 ? std::min(i, far) : far;
    for (std::size_t j = first; j <= last; ++j) {
      std::size_t cost =
          std::min({above[j - 1] + (a.letters[i - 1] != b.letters[j - 1]), above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a.letters[i - 1] == b.letters[j - 2] && a.letters[i - 2] == b.letters[j - 1])
        cost = std::min(cost, second[j - 2] + 1);
      row[j] = std::min(cost, far);
      least = std::min(least, row[j]);
    }
    if (last < b.size) row[last + 1] = far;
    if (least > most) return far;
  }
  return row[b.size];
}

// Splits a name such as max_steps into its words.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  for (std::size_t end = name.find_first_of("_-"); end != std::string_view::npos;
       end = name.find_first_of("_-")) {
    words.push_back(name.substr(0, end));
    name.remove_prefix(end + 1);
  }
  words.push_back(name);
  return words;
}

// A typing error in a short word keeps its first letter or swaps its letters: tp is not a misspelt dp.
bool begins_alike(const Word& a, const Word& b) {
  constexpr std::size_t kShort = 3;
  return a.size == 0 || b.size == 0 || std::max(a.size, b.size) > kShort || a.letters[0] == b.letters[0] ||
         (a.size == b.size && a.present == b.present);
}

std::string without_signs(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (c != '_' && c != '-') letters += c;
  return letters;
}

// For names with different numbers of words: returns true if they differ only in the signs between words and
// in at most one letter.
bool same_letters(std::string_view given, std::string_view candidate) {
  const std::string a = without_signs(given), b = without_signs(candidate);
  return a.size() <= kLongest && b.size() <= kLongest && edit_distance(Word(a), Word(b), 1) <= 1;
}

std::string digits_of(std::string_view name) {
  std::string digits;
  for (const char c : name)
    if (c >= '0' && c <= '9') digits += c;
  std::sort(digits.begin(), digits.end());  // digits may be swapped
  return digits;
}

// Returns true if the words of two names could be the same with typing errors. Other digits mean another
// thing. Another word changes the meaning, however few letters differ: eval_steps is not a misspelt
// save_steps.
bool same_words(std::string_view given, std::string_view candidate) {
  const std::vector<std::string_view> a = words_of(given), b = words_of(candidate);
  if (digits_of(given) != digits_of(candidate)) return false;
  if (a.size() != b.size()) return same_letters(given, candidate);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t most = most_edits(a[i]);
    const Word word(a[i]), other(b[i]);
    if (std::max(word.size, other.size) - std::min(word.size, other.size) > most) return false;
    if (edit_distance(word, other, most) > most || !begins_alike(word, other)) return false;
  }
  return true;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > kLongestWord) return "";
  const Word given(word);
  std::string_view best;
  std::size_t best_distance = most_edits(word) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() + best_distance <= word.size() || word.size() + best_distance <= candidate.size())
      continue;  // the lengths alone differ so much
    const std::size_t most = best_distance - 1;
    const Word other(candidate);
    if (!may_be_within(given, other, most)) continue;
    const std::size_t distance = edit_distance(given, other, most);
    if (distance > most || distance >= candidate.size() || !same_words(word, candidate)) continue;
    best_distance = distance;
    best = candidate;
  }
  return std::string(best);
}

}  // namespace recollect
