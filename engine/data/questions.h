// Questions about texts, as SQuAD's files have them, and which part of which text each sample of them sees: what makes
// texts of the positions that a model answers with, and judges them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

class QuestionAnsweringSet {
 public:
  struct Answer {
    std::string text;
    uint32_t begin = 0;  // code points of the context before it
  };
  struct Example {
    std::string id = {}, question = {};
    std::size_t context = 0;           // its number among contexts
    std::vector<Answer> answers = {};  // none where it is impossible, or unlabelled
    bool is_impossible = false;        // as the file says, or false
    int64_t line = 0;                  // of the file, where it begins
  };
  struct Place {  // in a context, in bytes
    uint32_t begin = 0, end = 0;
    bool operator==(const Place&) const = default;
  };
  // A sample. Its tokens from `token` on stand for context: `size` of them, whose places are known.
  struct Window {
    uint32_t example = 0;
    uint32_t token = 0, size = 0;
    Place first = {};  // of the first of them, which may leave out less of a blank than in other windows
    std::size_t places = 0;  // where in places those begin
  };

  std::deque<std::string> contexts;
  std::deque<Example> examples;
  std::vector<Window> windows;  // of sample i, in order; an example's follow one another
  std::vector<Place> places;    // of the contexts' tokens, one context behind the other

  const Example& example_of(std::size_t window) const { return examples[windows[window].example]; }
  std::string_view context_of(const Example& example) const { return contexts[example.context]; }
  // Of a token of the context; nothing for another token of the window, and behind it.
  std::optional<Place> place(std::size_t window, std::size_t token) const {
    const Window& seen = windows[window];
    if (token < seen.token || token - seen.token >= seen.size) return std::nullopt;
    return token == seen.token ? seen.first : places[seen.places + token - seen.token];
  }
  // What the context has from the first of these tokens to the end of the last. Both are tokens of the context, in order.
  std::string_view text(std::size_t window, std::size_t first, std::size_t last) const {
    const uint32_t begin = place(window, first)->begin, end = place(window, last)->end;
    return context_of(example_of(window)).substr(begin, end - begin);
  }
};

}  // namespace recollect
