// How texts become what a model reads: cut to a length, special tokens around them, and a type for each token.
// What there is to be done is data, whichever of Hugging Face's processors it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/data/tokenizer/token.h"

namespace recollect {

struct PostProcessor {
  struct Piece {
    int8_t sequence = -1;  // the first text, the second, or, -1, the special token `id`
    uint32_t id = 0;
    uint8_t type = 0;
  };
  // Each text stands in them once.
  std::vector<Piece> single = {{.sequence = 0}}, pair = {{.sequence = 0}, {.sequence = 1, .type = 1}};
  // Places of tokens leave out the blanks at their ends; but, where a blank is put before a text, not of its first
  // token.
  bool trims_offsets = false, put_prefix_space = false;
  // Later windows of a text have its number for a type, whatever the pieces say: Hugging Face's templates do so.
  bool types_first_windows_only = false;
  std::string refused = {};  // not empty: what of the file is not carried out here
};

// Which text loses tokens: of two the longer one, or both down to the same length; or one of them.
enum class Truncation { kNone, kLongestFirst, kOnlyFirst, kOnlySecond };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<Truncation> = {"none", "longest_first",
                                                                           "only_first", "only_second"};

struct AssembleOptions {
  bool special_tokens = true;
  Truncation truncation = Truncation::kNone;
  std::size_t max_length = 0;  // special tokens included
  bool windows = false;
  std::size_t stride = 0;  // tokens that two windows one behind the other share
  bool from_left = false;  // a cut takes away the text's beginning; the tokenizer says it
};

// Calls trim(tokens) for what each window has of a text, where offsets are to be trimmed.
std::vector<std::vector<Token>> assemble_windows(const PostProcessor& processor, std::span<const Token> first,
                                                 std::optional<std::span<const Token>> second,
                                                 const AssembleOptions& options,
                                                 const std::function<void(std::span<Token>)>& trim);

}  // namespace recollect
