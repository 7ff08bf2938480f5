// What is wrong with words that Boost's parser refused. Its errors replace placeholders by parts of the words
// when they are asked for their text, and never end where a word holds a placeholder itself.
#pragma once

#include <algorithm>
#include <boost/program_options/errors.hpp>
#include <string>
#include <vector>

namespace recollect {

inline std::string option_problem(const boost::program_options::error& error,
                                  const std::vector<std::string>& words) {
  const auto holds_one = [](const std::string& word) {
    return std::count(word.begin(), word.end(), '%') > 1;
  };
  const auto found = std::find_if(words.begin(), words.end(), holds_one);
  return found == words.end() ? error.what() : "an option is wrong at or beside '" + *found + "'";
}

}  // namespace recollect
