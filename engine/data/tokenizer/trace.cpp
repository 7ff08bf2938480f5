// Tokens with their places: the model says which bytes of a word each stands for, and these know which code points of
// the text they come from.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {
namespace {

// Code points before places of a text that are asked for in order, or nearly so.
class PointCounter {
 public:
  explicit PointCounter(std::string_view text) : text_(text) {}
  uint32_t before(std::size_t byte) {
    if (byte < byte_) byte_ = points_ = 0;
    points_ += static_cast<uint32_t>(count_points(text_.substr(byte_, byte - byte_)));
    byte_ = byte;
    return points_;
  }

 private:
  std::string_view text_;
  std::size_t byte_ = 0;
  uint32_t points_ = 0;
};

Token token_of(const AddedMatch& match, int32_t word, std::string_view text, TextSpan place) {
  const auto blanks = [](std::string_view part) {
    return static_cast<uint16_t>(std::min<std::size_t>(count_points(part), UINT16_MAX));
  };
  return {.id = match.id,
          .word = word,
          .begin = place.begin,
          .end = place.end,
          .sequence = 0,
          .blanks_left = blanks(text.substr(match.begin, match.blanks_left)),
          .blanks_right = blanks(text.substr(match.end - match.blanks_right, match.blanks_right))};
}

}  // namespace

void Tokenizer::encode(std::string_view text, EncodingMemory& memory, std::vector<Token>& tokens) const {
  PointCounter points(text);
  int32_t word = -1;
  added_->split(
      text,
      [&](std::size_t begin, std::size_t end) {
        trace_piece(text.substr(begin, end - begin), points.before(begin), word, memory, tokens);
      },
      [&](const AddedMatch& match) {
        const uint32_t begin = points.before(match.begin);
        tokens.push_back(token_of(match, ++word, text, {begin, points.before(match.end)}));
      });
}

void Tokenizer::encode(std::span<const std::string_view> words, EncodingMemory& memory,
                       std::vector<Token>& tokens) const {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t before = tokens.size();
    encode(words[i], memory, tokens);
    for (Token& token : std::span(tokens).subspan(before)) token.word = static_cast<int32_t>(i);
  }
}

void Tokenizer::trace_piece(std::string_view text, uint32_t base, int32_t& word, EncodingMemory& memory,
                            std::vector<Token>& tokens) const {
  normalize(text, base, true, false, memory);
  text = memory.text.bytes;
  const std::vector<TextSpan>& spans = memory.text.spans;
  added_normalized_->split(
      text,
      [&](std::size_t begin, std::size_t end) {
        cut(text.substr(begin, end - begin), spans.data() + begin, base, memory);
        trace_words(word, memory, tokens);
      },
      [&](const AddedMatch& match) {
        tokens.push_back(token_of(match, ++word, text, {spans[match.begin].begin, spans[match.end - 1].end}));
      });
}

void Tokenizer::trace_words(int32_t& number, EncodingMemory& memory, std::vector<Token>& tokens) const {
  for (const Pieces::Piece& piece : memory.pieces.all()) {
    memory.ids.clear();
    memory.ranges.clear();
    encoder_->encode(memory.pieces.of(piece), memory.ids, &memory.ranges);
    ++number;
    for (std::size_t i = 0; i < memory.ids.size(); ++i) {
      const ByteRange range = memory.ranges[i];
      const TextSpan place = memory.pieces.span(piece.begin + range.begin, piece.begin + range.end);
      tokens.push_back(
          {.id = memory.ids[i], .word = number, .begin = place.begin, .end = place.end, .sequence = 0});
    }
  }
}

// As Hugging Face's ByteLevel and RobertaProcessing have it, for what a window has of one text.
void Tokenizer::trim_blanks(std::span<Token> tokens) const {
  for (Token& token : tokens) {
    uint32_t leading = 0, trailing = 0, at_all = 0;
    const auto count = [&](bool blank) {
      leading += blank && leading == at_all;
      trailing = blank ? trailing + 1 : 0;
      ++at_all;
    };
    for (uint32_t i = 0; i < token.blanks_left; ++i) count(true);
    const std::string_view spelling = tokens_[token.id];
    for (std::size_t at = 0; at < spelling.size();) {
      constexpr uint32_t kSpelledBlank = 0x120;
      const uint32_t point = decode_utf8(spelling, at);
      count(point == kSpelledBlank || characters_->is_white(point));
    }
    for (uint32_t i = 0; i < token.blanks_right; ++i) count(true);
    if (leading == 1 && post_processor_.put_prefix_space && (&token == tokens.data() || token.begin == 0))
      leading = 0;
    token.begin = std::min(token.begin + leading, token.end);
    if (token.end >= trailing) token.end = std::max(token.end - trailing, token.begin);
  }
}

std::size_t Tokenizer::special_tokens_around(bool pair) const {
  if (!post_processor_.refused.empty()) throw Error(ExitCode::kInput, post_processor_.refused);
  const auto& pieces = pair ? post_processor_.pair : post_processor_.single;
  return static_cast<std::size_t>(
      std::count_if(pieces.begin(), pieces.end(), [](const auto& piece) { return piece.sequence < 0; }));
}

std::vector<std::vector<Token>> Tokenizer::assemble(std::span<const Token> first,
                                                    std::optional<std::span<const Token>> second,
                                                    const AssembleOptions& options) const {
  if (!post_processor_.refused.empty()) throw Error(ExitCode::kInput, post_processor_.refused);
  AssembleOptions sided = options;
  sided.from_left = habits_.cuts_left;
  auto windows = assemble_windows(post_processor_, first, second, sided,
                                  [this](std::span<Token> tokens) { trim_blanks(tokens); });
  if (!habits_.gives_types)
    for (std::vector<Token>& window : windows)
      for (Token& token : window) token.type = 0;
  return windows;
}

}  // namespace recollect
