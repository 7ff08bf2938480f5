// Tokens with their places. A word's ids come from where encode() has them; how many bytes each stands for says the
// encoder, and which characters of the text these come from says the normalizer. A token that is part of a character
// has the whole of it for its place.
#include "engine/core/error.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

void Tokenizer::encode(std::string_view text, EncodingMemory& memory, std::vector<Token>& tokens) const {
  uint32_t base = 0;
  int32_t word = -1;
  added_.split(
      text,
      [&](std::string_view piece) {
        trace_piece(piece, base, word, memory, tokens);
        base += static_cast<uint32_t>(count_points(piece));
      },
      [&](uint32_t id, std::string_view found) {
        const auto points = static_cast<uint32_t>(count_points(found));
        tokens.push_back({.id = id, .word = ++word, .begin = base, .end = base + points, .sequence = 0});
        base += points;
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
  if (normalizer_) {
    normalizer_->apply(text, memory.normalized, true);
    text = memory.normalized.text;
  }
  const auto origins_from = [&](uint32_t at) {
    return normalizer_ ? Origins{.traced = memory.normalized.origins.data() + at, .base = base}
                       : Origins{.base = base + at};
  };
  uint32_t at = 0;  // code points of the text before
  added_normalized_.split(
      text,
      [&](std::string_view piece) {
        trace_words(piece, origins_from(at), word, memory, tokens);
        at += static_cast<uint32_t>(count_points(piece));
      },
      [&](uint32_t id, std::string_view found) {
        const auto points = static_cast<uint32_t>(count_points(found));
        const Origins origins = origins_from(at);
        tokens.push_back(
            {.id = id, .word = ++word, .begin = origins(0), .end = origins(points - 1) + 1, .sequence = 0});
        at += points;
      });
}

// What lies between words is blanks, of one byte each.
void Tokenizer::trace_words(std::string_view text, Origins origins, int32_t& number, EncodingMemory& memory,
                            std::vector<Token>& tokens) const {
  const std::string_view given = text;
  text = with_prefix_space(text, memory);
  origins.prefix = static_cast<uint32_t>(text.size() - given.size());
  uint32_t at = 0;  // code points before `behind`
  const char* behind = text.data();
  for_each_word(text, [&](std::string_view word) {
    at += static_cast<uint32_t>(word.data() - behind);
    memory.ids.clear();
    encode_word(word, memory.words, memory.ids);
    at = trace_word(word, origins, at, ++number, memory.ids, tokens);
    behind = word.data() + word.size();
  });
}

uint32_t Tokenizer::trace_word(std::string_view word, const Origins& origins, uint32_t at, int32_t number,
                               std::span<const uint32_t> ids, std::vector<Token>& tokens) const {
  for (std::size_t i = 0, byte = 0; i < ids.size(); ++i) {
    const std::size_t bytes = ids.size() == 1 ? word.size() : encoder_->bytes_of(ids[i], i == 0);
    const std::string_view part = word.substr(byte, bytes);
    const bool inside = (part.front() & 0xc0) == 0x80;  // a character that has begun before
    const auto end = static_cast<uint32_t>(at + count_points(part));
    tokens.push_back({.id = ids[i],
                      .word = number,
                      .begin = origins(at - (inside ? 1 : 0)),
                      .end = origins(end - 1) + 1,
                      .sequence = 0});
    at = end;
    byte += bytes;
  }
  return at;
}

// As Hugging Face's ByteLevel and RobertaProcessing have it, for what a window has of one text.
void Tokenizer::trim_blanks(std::span<Token> tokens) const {
  for (Token& token : tokens) {
    uint32_t leading = 0, trailing = 0, at_all = 0;
    const std::string_view spelling = tokens_[token.id];
    for (std::size_t at = 0; at < spelling.size(); ++at_all) {
      constexpr uint32_t kSpelledBlank = 0x120;
      const uint32_t point = decode_utf8(spelling, at);
      const bool blank = point == kSpelledBlank || characters_.class_of(point) == CharacterClass::kSpace;
      leading += blank && leading == at_all;
      trailing = blank ? trailing + 1 : 0;
    }
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
