#include "engine/data/tokenizer/post_processor.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {
namespace {

using Piece = PostProcessor::Piece;

struct Range {
  std::size_t begin, end;
};

// What a cut to `most` tokens leaves, and then what it takes away, again and again.
std::vector<Range> cut(std::size_t size, std::size_t most, const AssembleOptions& options) {
  if (most >= size) return {{0, size}};
  if (!options.windows) return {options.from_left ? Range{size - most, size} : Range{0, most}};
  if (most == 0) return {{0, 0}, {0, size}};
  if (options.stride >= most)
    throw Error(ExitCode::kInput,
                fmt::format("a stride of {} tokens, where a window has room for {} of the text",
                            options.stride, most),
                "choose a smaller stride, or a greater length");
  std::vector<Range> ranges;
  for (std::size_t end = size; options.from_left; end -= most - options.stride) {
    ranges.push_back({end > most ? end - most : 0, end});
    if (ranges.back().begin == 0) return ranges;
  }
  for (std::size_t begin = 0; ranges.empty() || ranges.back().end < size; begin += most - options.stride)
    ranges.push_back({begin, std::min(begin + most, size)});
  return ranges;
}

// Of two texts of `sizes` tokens: what the longest-first rule leaves in `room`.
std::array<std::size_t, 2> longest_first(std::array<std::size_t, 2> sizes, std::size_t room) {
  const bool swapped = sizes[0] > sizes[1];
  std::size_t less = std::min(sizes[0], sizes[1]);
  std::size_t more = less > room ? less : std::max(less, room - less);
  if (less + more > room) {
    less = room / 2;
    more = less + room % 2;
  }
  return swapped ? std::array{more, less} : std::array{less, more};
}

// The most tokens that each text may keep.
std::array<std::size_t, 2> kept(std::array<std::size_t, 2> sizes, bool pair, std::size_t added,
                                const AssembleOptions& options) {
  if (options.truncation == Truncation::kNone) return sizes;
  if (options.max_length < added)
    throw Error(ExitCode::kInput,
                fmt::format("{} special tokens in a sequence of {}", added, options.max_length));
  const std::size_t room = options.max_length - added, total = sizes[0] + sizes[1];
  if (room == 0) return {0, 0};
  if (total <= room) return sizes;
  if (options.truncation == Truncation::kLongestFirst)
    return pair ? longest_first(sizes, room) : std::array<std::size_t, 2>{room, 0};
  const std::size_t target = options.truncation == Truncation::kOnlyFirst ? 0 : 1;
  if (target == 1 && !pair)
    throw Error(ExitCode::kInput, "the second text is to be truncated, and there is only one");
  if (sizes[target] <= total - room)
    throw Error(
        ExitCode::kInput,
        fmt::format("the {} text alone has {} tokens, which leaves nothing of the other one in a sequence of "
                    "{}, {} of them special",
                    target == 0 ? "second" : "first", sizes[1 - target], options.max_length, added));
  sizes[target] -= total - room;
  return sizes;
}

// Which window of each text. The order is that of Hugging Face's merging: a text's later windows with all of the next
// text's, and then its first one with the next text's later ones.
std::vector<std::array<std::size_t, 2>> combine(const std::vector<Piece>& pieces,
                                                const std::array<std::vector<Range>, 2>& windows) {
  std::vector<std::array<std::size_t, 2>> chosen{{0, 0}};
  for (const Piece& piece : pieces) {
    if (piece.sequence < 0) continue;
    const auto sequence = static_cast<std::size_t>(piece.sequence);
    std::vector<std::array<std::size_t, 2>> merged;
    const auto add = [&](std::array<std::size_t, 2> one, std::size_t window) {
      one[sequence] = window;
      merged.push_back(one);
    };
    add(chosen[0], 0);
    for (std::size_t i = 1; i < chosen.size(); ++i)
      for (std::size_t window = 0; window < windows[sequence].size(); ++window) add(chosen[i], window);
    for (std::size_t window = 1; window < windows[sequence].size(); ++window) add(chosen[0], window);
    chosen = std::move(merged);
  }
  return chosen;
}

}  // namespace

std::vector<std::vector<Token>> assemble_windows(const PostProcessor& processor, std::span<const Token> first,
                                                 std::optional<std::span<const Token>> second,
                                                 const AssembleOptions& options,
                                                 const std::function<void(std::span<Token>)>& trim) {
  const std::vector<Piece>& pieces = second ? processor.pair : processor.single;
  const std::array<std::span<const Token>, 2> texts{first, second.value_or(std::span<const Token>())};
  const auto special =
      std::count_if(pieces.begin(), pieces.end(), [](const Piece& p) { return p.sequence < 0; });
  const std::size_t added = options.special_tokens ? static_cast<std::size_t>(special) : 0;
  const auto most = kept({texts[0].size(), texts[1].size()}, second.has_value(), added, options);
  const std::array<std::vector<Range>, 2> windows{cut(texts[0].size(), most[0], options),
                                                  cut(texts[1].size(), most[1], options)};
  std::vector<std::vector<Token>> all;
  for (const auto& chosen : combine(pieces, windows)) {
    std::vector<Token>& tokens = all.emplace_back();
    for (const Piece& piece : pieces) {
      if (piece.sequence < 0) {
        if (options.special_tokens) tokens.push_back({.id = piece.id, .type = piece.type});
        continue;
      }
      const auto sequence = static_cast<std::size_t>(piece.sequence);
      const Range range = windows[sequence][chosen[sequence]];
      const std::size_t before = tokens.size();
      for (Token token : texts[sequence].subspan(range.begin, range.end - range.begin)) {
        token.type = processor.types_first_windows_only && chosen[sequence] > 0
                         ? static_cast<uint8_t>(piece.sequence)
                         : piece.type;
        token.sequence = piece.sequence;
        tokens.push_back(token);
      }
      if (processor.trims_offsets) trim(std::span(tokens).subspan(before));
    }
  }
  return all;
}

}  // namespace recollect
