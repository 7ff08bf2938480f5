#include "launch/config/words.h"

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "launch/config/option_problem.h"
#include "launch/config/read.h"

namespace recollect {

Words parse_options(const Words& words, const boost::program_options::options_description& own) {
  namespace options = boost::program_options;
  Words rest, sets;
  options::options_description all;
  all.add(own).add_options()("set", options::value(&sets)->composing())("word", options::value(&rest));
  options::positional_options_description positional;
  positional.add("word", -1);
  try {
    options::variables_map values;
    options::store(options::command_line_parser(words).options(all).positional(positional).run(), values);
    options::notify(values);
  } catch (const options::error& error) {
    throw UsageError(option_problem(error, words));
  }
  rest.insert(rest.end(), sets.begin(), sets.end());
  return rest;
}

Config read_config_words(const std::string& command, const Words& words) {
  if (words.empty()) throw UsageError(fmt::format("{} needs a configuration file", command));
  return read_config(words.front(), {words.begin() + 1, words.end()});
}

}  // namespace recollect
