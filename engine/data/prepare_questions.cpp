#include "engine/data/prepare_questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/core/error.h"
#include "engine/data/row_blocks.h"
#include "engine/data/text_file.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using Set = QuestionAnsweringSet;

// What Python's str.lstrip() leaves.
std::string_view without_leading_blanks(std::string_view text) {
  const auto is_blank = [](uint32_t c) {
    return (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
  };
  while (!text.empty()) {
    std::size_t behind = 0;
    if (!is_blank(decode_utf8(text, behind))) break;
    text.remove_prefix(behind);
  }
  return text;
}

// Of each code point where it begins, and the text's end.
std::vector<uint32_t> bytes_of_points(std::string_view text) {
  std::vector<uint32_t> bytes;
  for (std::size_t at = 0; at < text.size(); ++at)
    if ((text[at] & 0xc0) != 0x80) bytes.push_back(static_cast<uint32_t>(at));
  bytes.push_back(static_cast<uint32_t>(text.size()));
  return bytes;
}

// Where the model says that there is no answer: at its classification token, or what stands in for it.
std::size_t position_of_none(std::span<const Token> tokens, const SpecialIds& special) {
  for (const std::optional<uint32_t>& id : {special.cls, special.bos}) {
    if (!id) continue;
    const auto found =
        std::find_if(tokens.begin(), tokens.end(), [&](const Token& token) { return token.id == *id; });
    if (found != tokens.end()) return static_cast<std::size_t>(found - tokens.begin());
  }
  return 0;
}

// As run_qa finds them. An answer that begins in the last token of the context begins, by its rule, with the special
// token behind that; which is what models were trained on.
std::array<std::size_t, 2> positions_of(std::span<const Token> tokens, std::size_t first, std::size_t last,
                                        std::size_t none, uint32_t begin, uint32_t end) {
  if (tokens[first].begin > begin || tokens[last].end < end) return {none, none};
  std::size_t start = first, stop = last + 1;
  while (start < tokens.size() && tokens[start].begin <= begin) ++start;
  while (stop > first && tokens[stop - 1].end >= end) --stop;
  return {start - 1, stop};
}

class WindowMaker {
 public:
  // What some contexts give beside samples, to be put behind that of others.
  struct Result {
    std::vector<Set::Window> windows;
    std::vector<Set::Place> places;
  };

  WindowMaker(const std::string& path, const Tokenizer& tokenizer, const QuestionsSpec& spec, const Set& set)
      : path_(path), tokenizer_(tokenizer), spec_(spec), set_(set), maker_(tokenizer, spec.sequence) {}

  PackedSamples empty() const {
    std::vector<PackedSamples::Part> parts = maker_.parts();
    if (spec_.labelled) parts.insert(parts.end(), {{.name = "start"}, {.name = "end"}});
    return {std::move(parts), maker_.sequence_length()};
  }

  // The context of examples [first, behind), all of which ask about it.
  void append(std::size_t first, std::size_t behind, EncodingMemory& memory, PackedSamples& samples,
              Result& result) const {
    const std::string_view text = set_.context_of(set_.examples[first]);
    const std::vector<uint32_t> bytes = bytes_of_points(text);
    std::vector<Token> context;
    tokenizer_.encode(text, memory, context);
    for (std::size_t i = 0; i < context.size(); ++i) context[i].word = static_cast<int32_t>(i);
    const std::size_t places = result.places.size();
    result.places.resize(places + context.size());
    for (std::size_t i = first; i < behind; ++i)
      for (const std::vector<Token>& tokens : windows_of(set_.examples[i], context, memory)) {
        append_window(i, tokens, bytes, places, result);
        append_sample(set_.examples[i], tokens, result.windows.back(), samples);
      }
  }

 private:
  std::vector<std::vector<Token>> windows_of(const Set::Example& example, std::span<const Token> context,
                                             EncodingMemory& memory) const {
    std::vector<Token> question;
    tokenizer_.encode(without_leading_blanks(example.question), memory, question);
    if (spec_.labelled && context.empty() && !example.answers.empty())
      fail(example, "the context has not a single token");
    try {
      return tokenizer_.assemble(question, context,
                                 {.truncation = Truncation::kOnlySecond,
                                  .max_length = static_cast<std::size_t>(spec_.sequence.sequence_length),
                                  .windows = true,
                                  .stride = static_cast<std::size_t>(spec_.stride)});
    } catch (const Error& error) {
      fail(example, error.what(), error.hint());
    }
  }

  void append_window(std::size_t example, std::span<const Token> tokens, std::span<const uint32_t> bytes,
                     std::size_t places, Result& result) const {
    const auto is_context = [](const Token& token) { return token.sequence == 1; };
    const auto first = std::find_if(tokens.begin(), tokens.end(), is_context);
    const auto behind = std::find_if_not(first, tokens.end(), is_context);
    Set::Window window{.example = static_cast<uint32_t>(example),
                       .token = static_cast<uint32_t>(first - tokens.begin()),
                       .size = static_cast<uint32_t>(behind - first)};
    for (auto token = first; token != behind; ++token) {
      const Set::Place place{bytes[token->begin], bytes[token->end]};
      Set::Place& shared = result.places[places + static_cast<std::size_t>(token->word)];
      if (token == first) {
        window.first = place;
        window.places = places + static_cast<std::size_t>(token->word);
      }
      if (token != first || shared == Set::Place{}) shared = place;
    }
    result.windows.push_back(window);
  }

  void append_sample(const Set::Example& example, std::span<const Token> tokens, const Set::Window& window,
                     PackedSamples& samples) const {
    Fields sample;
    maker_.append(tokens, sample);
    if (spec_.labelled) {
      const std::size_t none = position_of_none(tokens, tokenizer_.special());
      std::array<std::size_t, 2> positions{none, none};
      if (!example.answers.empty() && window.size == 0)
        fail(example, "the question leaves no room for the context");
      if (!example.answers.empty()) {
        const Set::Answer& answer = example.answers.front();
        positions = positions_of(tokens, window.token, window.token + window.size - 1, none, answer.begin,
                                 answer.begin + static_cast<uint32_t>(count_points(answer.text)));
      }
      sample["start"].push_back(static_cast<int32_t>(positions[0]));
      sample["end"].push_back(static_cast<int32_t>(positions[1]));
    }
    samples.append(sample);
  }

  [[noreturn]] void fail(const Set::Example& example, const std::string& what, std::string hint = {}) const {
    fail_at_line(path_, example.line, fmt::format("question {}: {}", escaped_name(example.id), what),
                 std::move(hint));
  }

  const std::string& path_;
  const Tokenizer& tokenizer_;
  const QuestionsSpec& spec_;
  const Set& set_;
  SequenceMaker maker_;
};

}  // namespace

PackedSamples prepare_questions(const std::string& path, std::size_t context, const Tokenizer& tokenizer,
                                const QuestionsSpec& spec, QuestionAnsweringSet& set) {
  // A row is the examples of a context, which have one tokenization of it.
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < set.examples.size(); ++i)
    if (set.examples[i].context >= context &&
        (begins.empty() || set.examples[i].context != set.examples[i - 1].context))
      begins.push_back(i);
  const std::size_t rows = begins.size();
  begins.push_back(set.examples.size());
  constexpr std::size_t kContextsOfABlock = 32;
  const WindowMaker maker(path, tokenizer, spec, set);
  std::vector<PackedSamples> samples(count_blocks(rows, kContextsOfABlock), maker.empty());
  std::vector<WindowMaker::Result> results(samples.size());
  for_each_block(rows, kContextsOfABlock, spec.threads, [&](const RowBlock& block, EncodingMemory& memory) {
    for (std::size_t row = block.begin; row < block.end; ++row)
      maker.append(begins[row], begins[row + 1], memory, samples[block.number], results[block.number]);
    samples[block.number].shrink();
  });
  std::size_t windows = set.windows.size(), places = set.places.size();
  for (const WindowMaker::Result& result : results) {
    windows += result.windows.size();
    places += result.places.size();
  }
  set.windows.reserve(windows);
  set.places.reserve(places);
  for (WindowMaker::Result& result : results) {
    for (Set::Window window : result.windows) {
      window.places += set.places.size();
      set.windows.push_back(window);
    }
    set.places.insert(set.places.end(), result.places.begin(), result.places.end());
    result = {};
  }
  PackedSamples all = maker.empty();
  for (PackedSamples& some : samples) all.append(std::move(some));
  return all;
}

}  // namespace recollect
